// SPDX-License-Identifier: Apache-2.0
//
// Every entry of the driver API: the real driver's, and what the program is given in its place. The
// exported symbols are jumps through targets that are filled when the library is loaded, so an
// entry that is not ours costs one jump to those who are linked to us, and nothing to those who ask
// cuGetProcAddress.
#pragma once

// cuda.h names each form of an entry by itself, for the table names them all.
#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>
#include <cudaTypedefs.h>

#include <type_traits>

#include "common/base/bytes.h"

namespace ckpt::cuda {

enum class Id : u16 {
#define CU_ENTRY(name, version, symbol, per_thread) id_##symbol,
#include "common/api/cuda_entries.api"
#undef CU_ENTRY
  Count,
};

struct EntryInfo {
  const char *name;  // as cuGetProcAddress knows it
  int version;       // since which it has this form
  const char *symbol;
  bool per_thread;
  void *ours;  // null: the driver's own is given out
};

const EntryInfo &entry_info(Id id);
// The form of `name` that a program of `version` means, or Id::Count.
Id find_entry(const char *name, int version, bool per_thread);

inline constexpr size_t kEntries = static_cast<size_t>(Id::Count);
// Null: the driver does not have it.
extern void *g_real[kEntries];
inline void *real_entry(Id id) { return g_real[static_cast<size_t>(id)]; }

// Gives every exported symbol its target. Without `wrap` all are the driver's own.
void fill_targets(bool wrap);

// What stands in the table as OURS is defined somewhere in this room, as entry_SYMBOL.
#define GATED(symbol, type) using Type_##symbol = type;
#define NOTED(symbol, type, what) GATED(symbol, type)
#define HINT(symbol, type, n) GATED(symbol, type)
#define OURS(symbol, type, how) \
  GATED(symbol, type)           \
  std::remove_pointer_t<type> entry_##symbol;
#define REFUSED(symbol, why)
#include "libckpt-cuda/cuda.api"
#undef GATED
#undef NOTED
#undef HINT
#undef OURS
#undef REFUSED

// The driver's own form of an entry of the table.
#define REAL(symbol)                             \
  reinterpret_cast<::ckpt::cuda::Type_##symbol>( \
      ::ckpt::cuda::real_entry(::ckpt::cuda::Id::id_##symbol))

}  // namespace ckpt::cuda
