// SPDX-License-Identifier: Apache-2.0
//
// The gate of every entry that is neither in cuda.api nor in straight.api.
//
// The problem. While a driver is checkpointed, it refuses calls (CUDA_ERROR_DEVICE_UNAVAILABLE of
// cuCtxSetCurrent, driver 580.159.04), and programs end because of that: XLA's threads set their
// context at any time. So every call must wait. But the gate of pass.h closes before the devices
// are idle, and a call that waits there may be the one for which a kernel waits:
//
//   kernel                     thread of the program        checkpoint
//   spins until flag == 1                                   closes the gate
//                              cuMemGetInfo: waits?         waits for the kernel
//                              *flag = 1: never reached
//
// How it works. There are two gates. Calls that submit work or change device memory wait at the
// first one (pass.h) from quiesce on. All others wait at this one, which closes when the devices
// are idle and the driver's Lock is next, and opens after Unlock. Calls inside are waited for: no
// kernel runs any more, so none of them can be waiting for one.
//
// An entry's parameters need not be known. The program gets a thunk for each entry:
//
//   thunk 7:    endbr64                 held_targets[7]: the driver's entry
//               movl $7, %r11d
//               jmp  held_call
//   held_call:  counts the call, waits if the gate is closed, copies what may be arguments on the
//               stack, calls held_targets[7], and counts it out
//
// The fast path touches no register with arguments. kStackWords words above the return address are
// copied, whether they are arguments or not: no entry has more (a unit test reads cuda.h).
//
// The thread may be in a call already, because a tool or a callback calls the driver from within:
// held_depth, the depth of this thread, keeps such a call from waiting for itself.
//
// Cost. About 10 ns a call (bench/cuda/overhead).
//
// Source. System V ABI for x86-64, section 3.2: arguments are in rdi, rsi, rdx, rcx, r8, r9, xmm0
// to xmm7 and on the stack; r10, r11, rax and xmm8 to xmm15 are free.
#pragma once

#include <chrono>

#include "common/base/clock.h"
#include "libckpt-cuda/entry/entries.h"
#include "libckpt-cuda/entry/pass.h"

// Hidden C names, because the assembly in held_calls.cc uses them.
extern "C" {
[[gnu::visibility("hidden")]] extern unsigned held_inside;  // threads that are in a call
[[gnu::visibility("hidden")]] extern unsigned held_closed;
[[gnu::visibility("hidden")]] extern __thread int held_depth [[gnu::tls_model("initial-exec")]];
[[gnu::visibility("hidden")]] void wait_for_driver();  // until the gate is open
}

namespace ckpt::cuda {

// The thunk that calls `real`. The same one for the same address. Null: there are no more thunks.
void *held_thunk(void *real);
// From now on all of them return CUDA_ERROR_DEVICE_UNAVAILABLE.
void lose_held_calls();

class HeldCalls {
 public:
  // Waits until no call is inside; false: some still are at the deadline. The gate stays closed.
  static bool close(Clock::time_point deadline);
  static void open();
  // In a forked child: from now on all thunks return CUDA_ERROR_NOT_INITIALIZED. Takes no lock.
  static void forget();
};

// A call of our own functions that passes this gate.
class Held {
 public:
  Held() {
    if (held_depth++ > 0) return;
    __atomic_fetch_add(&held_inside, 1, __ATOMIC_SEQ_CST);
    if (__atomic_load_n(&held_closed, __ATOMIC_SEQ_CST) != 0) wait_for_driver();
  }
  ~Held() {
    if (--held_depth == 0) __atomic_fetch_sub(&held_inside, 1, __ATOMIC_SEQ_CST);
  }
  Held(const Held &) = delete;
  CUresult refusal() const { return g_refusal.load(std::memory_order_relaxed); }
};

// As PASS_OR_RETURN in pass.h.
#define HOLD_OR_RETURN(held)                       \
  ::ckpt::cuda::Held held;                         \
  if (held.refusal() != CUDA_SUCCESS) [[unlikely]] \
  return held.refusal()

}  // namespace ckpt::cuda
