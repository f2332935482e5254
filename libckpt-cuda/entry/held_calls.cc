// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/entry/held_calls.h"

#include <condition_variable>
#include <mutex>
#include <thread>

#include "common/base/clock.h"
#include "common/base/log.h"

// The entries of cuda/entries.api, and more: a driver may return another address from
// cuGetProcAddress than its symbol has. Both numbers stand in the assembly below, too.
#define HELD_THUNKS 1536
#define STACK_BYTES 128
#define TEXT_OF(x) #x
#define TEXT(x) TEXT_OF(x)

unsigned held_inside = 0;
unsigned held_closed = 0;
__thread int held_depth = 0;

extern "C" {
[[gnu::visibility("hidden")]] void *held_targets[HELD_THUNKS];
[[gnu::visibility("hidden")]] extern char held_thunks[];
}

constexpr size_t kHeldThunkBytes = 16;
asm(".pushsection .text\n"
    ".balign 16\n.hidden held_thunks\n.globl held_thunks\nheld_thunks:\n"
    ".set held_place, 0\n"
    ".rept " TEXT(HELD_THUNKS) "\n"
    "  endbr64\n"
    "  movl $held_place, %r11d\n"
    "  jmp held_call\n"
    "  .balign 16\n"
    "  .set held_place, held_place + 1\n"
    ".endr\n"
    ".balign 16\n.type held_call, @function\nheld_call:\n"
    "  .cfi_startproc\n"
    "  pushq %rbp\n"
    "  .cfi_def_cfa_offset 16\n"
    "  .cfi_offset %rbp, -16\n"
    "  movq %rsp, %rbp\n"
    "  .cfi_def_cfa_register %rbp\n"
    "  movq held_depth@gottpoff(%rip), %rax\n"
    "  incl %fs:(%rax)\n"
    "  cmpl $1, %fs:(%rax)\n"
    "  jne 1f\n"
    "  lock incl held_inside(%rip)\n"
    "  cmpl $0, held_closed(%rip)\n"
    "  jne 3f\n"
    "1:\n"
    "  subq $" TEXT(STACK_BYTES) ", %rsp\n"
    "  movups 16(%rbp), %xmm8\n  movups 32(%rbp), %xmm9\n"
    "  movups 48(%rbp), %xmm10\n  movups 64(%rbp), %xmm11\n"
    "  movups 80(%rbp), %xmm12\n  movups 96(%rbp), %xmm13\n"
    "  movups 112(%rbp), %xmm14\n  movups 128(%rbp), %xmm15\n"
    "  movaps %xmm8, (%rsp)\n  movaps %xmm9, 16(%rsp)\n"
    "  movaps %xmm10, 32(%rsp)\n  movaps %xmm11, 48(%rsp)\n"
    "  movaps %xmm12, 64(%rsp)\n  movaps %xmm13, 80(%rsp)\n"
    "  movaps %xmm14, 96(%rsp)\n  movaps %xmm15, 112(%rsp)\n"
    "  leaq held_targets(%rip), %r10\n"
    "  movl %r11d, %r11d\n"
    "  xorl %eax, %eax\n"
    "  call *(%r10,%r11,8)\n"
    "  movq held_depth@gottpoff(%rip), %rcx\n"
    "  decl %fs:(%rcx)\n"
    "  jnz 2f\n"
    "  lock decl held_inside(%rip)\n"
    "2:\n"
    "  leave\n"
    "  .cfi_remember_state\n"
    "  .cfi_def_cfa %rsp, 8\n"
    "  ret\n"
    "  .cfi_restore_state\n"
    // The gate is closed. All registers with arguments survive the call.
    "3:\n"
    "  pushq %rdi\n  pushq %rsi\n  pushq %rdx\n  pushq %rcx\n  pushq %r8\n  pushq %r9\n"
    "  pushq %r10\n  pushq %r11\n"
    "  subq $128, %rsp\n"
    "  movaps %xmm0, (%rsp)\n  movaps %xmm1, 16(%rsp)\n"
    "  movaps %xmm2, 32(%rsp)\n  movaps %xmm3, 48(%rsp)\n"
    "  movaps %xmm4, 64(%rsp)\n  movaps %xmm5, 80(%rsp)\n"
    "  movaps %xmm6, 96(%rsp)\n  movaps %xmm7, 112(%rsp)\n"
    "  call wait_for_driver\n"
    "  movaps (%rsp), %xmm0\n  movaps 16(%rsp), %xmm1\n"
    "  movaps 32(%rsp), %xmm2\n  movaps 48(%rsp), %xmm3\n"
    "  movaps 64(%rsp), %xmm4\n  movaps 80(%rsp), %xmm5\n"
    "  movaps 96(%rsp), %xmm6\n  movaps 112(%rsp), %xmm7\n"
    "  addq $128, %rsp\n"
    "  popq %r11\n  popq %r10\n"
    "  popq %r9\n  popq %r8\n  popq %rcx\n  popq %rdx\n  popq %rsi\n  popq %rdi\n"
    "  jmp 1b\n"
    "  .cfi_endproc\n"
    ".size held_call, . - held_call\n"
    ".popsection\n");

namespace ckpt::cuda {
namespace {

// Calls inside take no time of a device, so their end is soon seen.
constexpr std::chrono::microseconds kPause{50};

struct Waiters {
  std::mutex mutex;
  std::condition_variable opened;
};
// Never destroyed: the CUDA runtime calls the driver after main() has returned.
Waiters &waiters() {
  static Waiters *const kWaiters = new Waiters;
  return *kWaiters;
}

std::mutex g_thunks_mutex;
size_t g_thunk_count = 0;

CUresult held_unavailable() { return CUDA_ERROR_DEVICE_UNAVAILABLE; }
CUresult held_not_initialized() { return CUDA_ERROR_NOT_INITIALIZED; }

void lead_all_to(CUresult (*function)()) {
  for (void *&target : held_targets)
    __atomic_store_n(&target, reinterpret_cast<void *>(function), __ATOMIC_RELEASE);
}

bool closed() { return __atomic_load_n(&held_closed, __ATOMIC_SEQ_CST) != 0; }

}  // namespace

void *held_thunk(void *real) {
  std::lock_guard lock(g_thunks_mutex);
  size_t place = 0;
  while (place < g_thunk_count && held_targets[place] != real) place++;
  if (place == HELD_THUNKS) {
    log::warn("the program cannot use an entry of this CUDA driver: it has too many for this ckpt");
    return nullptr;
  }
  if (place == g_thunk_count) {
    __atomic_store_n(&held_targets[place], real, __ATOMIC_RELEASE);
    g_thunk_count++;
  }
  return held_thunks + place * kHeldThunkBytes;
}

void lose_held_calls() {
  std::lock_guard lock(g_thunks_mutex);
  lead_all_to(&held_unavailable);
}

bool HeldCalls::close(Clock::time_point deadline) {
  __atomic_store_n(&held_closed, 1, __ATOMIC_SEQ_CST);
  while (__atomic_load_n(&held_inside, __ATOMIC_SEQ_CST) != 0) {
    if (Clock::now() >= deadline) return false;
    std::this_thread::sleep_for(kPause);
  }
  return true;
}

void HeldCalls::open() {
  std::lock_guard lock(waiters().mutex);
  __atomic_store_n(&held_closed, 0, __ATOMIC_SEQ_CST);
  waiters().opened.notify_all();
}

void HeldCalls::forget() {
  __atomic_store_n(&held_closed, 0, __ATOMIC_SEQ_CST);
  __atomic_store_n(&held_inside, 0, __ATOMIC_SEQ_CST);
  lead_all_to(&held_not_initialized);
}

}  // namespace ckpt::cuda

// A call that has come in just as the gate closed is counted out while it waits.
void wait_for_driver() {
  using namespace ckpt::cuda;
  while (closed()) {
    __atomic_fetch_sub(&held_inside, 1, __ATOMIC_SEQ_CST);
    {
      std::unique_lock lock(waiters().mutex);
      waiters().opened.wait(lock, [] { return !closed(); });
    }
    __atomic_fetch_add(&held_inside, 1, __ATOMIC_SEQ_CST);
  }
}
