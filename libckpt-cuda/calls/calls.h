// SPDX-License-Identifier: Apache-2.0
//
// The code for the lines of cuda.api: a template for each kind of line. `Gated<Id, type>::call` has
// the C signature `type` of the entry, so its address can replace the driver's.
#pragma once

#include <tuple>
#include <type_traits>

#include "libckpt-cuda/calls/copied_bytes.h"
#include "libckpt-cuda/entry/noted_blockers.h"
#include "libckpt-cuda/entry/pass.h"
#include "libckpt-cuda/memory/managed_memory.h"
#include "libckpt-cuda/memory/paired_arguments.h"

namespace ckpt::cuda {

// Frees device memory that is only kept for later allocations. False: there was none.
bool free_kept_memory();

// Calls the driver, and once more if memory was short and free_kept_memory() has freed some.
template <class Fn>
CUresult with_memory(Fn call) {
  CUresult e = call();
  if (e != CUDA_ERROR_OUT_OF_MEMORY || !free_kept_memory()) [[likely]]
    return e;
  return call();
}

// For the Manager and for the counts, where one of them asks.
template <class... A>
void note_copy(A... a) {
  if constexpr (!std::is_same_v<decltype(copied_by(a...)), CopiesNothing>) {
    CopyCounts *counts = copy_counts();
    if (counts == nullptr && (!gate().watched() || costs_lookups(a...))) return;
    const Copied copied = copied_by(a...);
    if (gate().watched()) gate().copied(copied.to_device + copied.to_host);
    if (counts == nullptr) return;
    counts->to_device.fetch_add(copied.to_device, std::memory_order_relaxed);
    counts->to_host.fetch_add(copied.to_host, std::memory_order_relaxed);
  }
}

// Passes the gate and calls the driver.
template <Id I, class F>
struct Gated;
template <Id I, class... A>
struct Gated<I, CUresult (*)(A...)> {
  static CUresult call(A... a) {
    PASS_OR_RETURN(pass);
    if constexpr (!copies_within_devices(I)) note_copy(a...);
    auto real = reinterpret_cast<CUresult (*)(A...)>(real_entry(I));
    if (paired_memory().any()) [[unlikely]]
      return with_memory([&] { return call_with_pairs<I>(real, a...); });
    return with_memory([&] { return real(a...); });
  }
};

// Advice about where managed memory should be; parameter N is its address, and the next one its
// size. Does nothing for managed memory of ours (ckpt-run --managed-memory).
template <Id I, size_t N, class F>
struct Hint;
template <Id I, size_t N, class... A>
struct Hint<I, N, CUresult (*)(A...)> {
  static CUresult call(A... a) {
    if (g_refusal != CUDA_SUCCESS) return g_refusal;
    std::tuple all{a...};
    if (managed_memory().on_host(std::get<N>(all))) return CUDA_SUCCESS;
    if (paired_memory().find(std::get<N>(all)))
      return paired_memory().holds(std::get<N>(all), std::get<N + 1>(all))
                 ? CUDA_SUCCESS
                 : CUDA_ERROR_INVALID_VALUE;
    return Gated<I, CUresult (*)(A...)>::call(a...);
  }
};

// A template parameter must be an object, not a string literal.
struct Reason {
  const char *text;
};

// Once it has succeeded, the process can no longer be checkpointed.
template <Id I, const Reason &R, class F>
struct Blocking;
template <Id I, const Reason &R, class... A>
struct Blocking<I, R, CUresult (*)(A...)> {
  static CUresult call(A... a) {
    CUresult e = Gated<I, CUresult (*)(A...)>::call(a...);
    if (e == CUDA_SUCCESS) note_blocker(I, R.text);
    return e;
  }
};

// Returns CUDA_ERROR_NOT_SUPPORTED; logs `reason` at the first call of each entry.
CUresult refuse(Id id, const char *reason);

// In the x86-64 calling convention a function may ignore the arguments that its caller passes, so
// one signature serves all refused entries.
template <Id I, const Reason &R>
struct Refused {
  static CUresult call() { return refuse(I, R.text); }
};

}  // namespace ckpt::cuda
