// SPDX-License-Identifier: Apache-2.0
//
// Every entry of the driver API: the real driver's address, and the address that the program gets
// instead.
//
// The problem. A program reaches the driver in two ways: it is linked to symbols of libcuda.so.1
// (-lcuda, dlsym), or it asks cuGetProcAddress for pointers, as every CUDA runtime does. We must
// replace 340 entries, and hold the 340 others back while the driver is checkpointed. Their
// parameters need not be known for that.
//
// Example. The program calls cuGetErrorName, which needs nothing from us, cuStreamQuery, which is
// held back, and cuMemAlloc_v2, which we replace:
//
//   cuGetErrorName: endbr64            target_cuGetErrorName: .quad the driver's cuGetErrorName
//                   jmp *target(%rip)
//   cuStreamQuery:  endbr64            target_cuStreamQuery: .quad a thunk (held_calls.h)
//                   jmp *target(%rip)
//   cuMemAlloc_v2:  endbr64            target_cuMemAlloc_v2: .quad entry_cuMemAlloc_v2
//                   jmp *target(%rip)
//
// How it works. cuda/entries.api lists all entries. For each line, entries.cc emits one exported
// function of one indirect jump, in assembly, because a jump passes every argument on, on the stack
// and in registers, whatever the signature. The constructor of this library (driver.cc) looks up
// each entry in the driver and fills the targets. In a process that runs under ckpt-run, they are
// ours where cuda.api has a line, the driver's where straight.api has one, and otherwise thunks. In
// other processes all are the driver's. cuGetProcAddress returns the same targets.
//
// Cost. One jump for an entry that is linked; then the gate: about 16 ns for one of ours, about 10
// ns for a thunk. The table is filled by 640 calls of dlsym at the start.
//
// Source. CUDA driver API, "Driver Entry Point Access"; System V ABI for x86-64, section 3.2.
#pragma once

// With this, cuda.h declares each form of an entry under its own symbol (cuMemAlloc_v2) and does
// not rename it by a macro. The table below names all forms.
#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>
#include <cudaTypedefs.h>

#include <algorithm>
#include <type_traits>

#include "cuda/entries.h"
#include "libckpt-cuda/entry/newer_types.h"

namespace ckpt::cuda {

using Id = api::CudaId;

struct EntryInfo {
  const char *name;  // as cuGetProcAddress knows it
  int version;       // of the CUDA release that introduced this form, 12080 for 12.8
  const char *symbol;
  bool per_thread;  // the form for the per-thread default stream
  void *ours;       // null: it is in neither cuda.api nor guest.api
  bool straight;    // it is in straight.api
};

const EntryInfo &entry_info(Id id);
// The newest CUDA in cuda/entries.api: 13050 for 13.5.
inline constexpr int kKnownVersion = api::kNewestVersion;

inline constexpr size_t kEntries = api::kCudaEntries;
// The driver's address of each entry; null: this driver does not have it.
extern void *g_real[kEntries];
inline void *real_entry(Id id) { return g_real[static_cast<size_t>(id)]; }

// What the program gets for an entry of which the driver's address is `real`.
void *given_for(const EntryInfo &info, void *real);
// Fills the target of every exported symbol. With `wrap` false all are the driver's own.
void fill_targets(bool wrap);

// A line OURS of cuda.api is defined in this library as entry_SYMBOL.
#define GATED(symbol, type) using Type_##symbol = type;
#define BLOCKING(symbol, type, reason) GATED(symbol, type)
#define HINT(symbol, type, n) GATED(symbol, type)
#define OURS(symbol, type, how) \
  GATED(symbol, type)           \
  std::remove_pointer_t<type> entry_##symbol;
#define REFUSED(symbol, reason)
#include "libckpt-cuda/cuda.api"
#undef GATED
#undef BLOCKING
#undef HINT
#undef OURS
#undef REFUSED

// Lines of guest.api are defined in guest/ as guest_SYMBOL.
#define SLICED(symbol, type)  \
  using Type_##symbol = type; \
  std::remove_pointer_t<type> guest_##symbol;
#include "libckpt-cuda/guest.api"
#undef SLICED

// The driver's own form of an entry that stands in cuda.api or guest.api.
#define REAL(symbol)                             \
  reinterpret_cast<::ckpt::cuda::Type_##symbol>( \
      ::ckpt::cuda::real_entry(::ckpt::cuda::Id::id_##symbol))

}  // namespace ckpt::cuda
