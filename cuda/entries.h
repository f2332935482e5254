// SPDX-License-Identifier: Apache-2.0
//
// The entries of the driver API (entries.api) as numbers and as a table, and which form of a
// name a program means. Needs no header of the toolkit.
#pragma once

#include <algorithm>
#include <cstring>

#include "common/base/bytes.h"

namespace ckpt::api {

enum class CudaId : u16 {
#define CU_ENTRY(name, version, symbol, per_thread) id_##symbol,
#include "cuda/entries.api"
#undef CU_ENTRY
  Count,
};

inline constexpr size_t kCudaEntries = static_cast<size_t>(CudaId::Count);

struct CudaEntry {
  const char *name;  // as cuGetProcAddress knows it
  int version;       // of the CUDA release that introduced this form, 12080 for 12.8
  const char *symbol;
  bool per_thread;  // the form for the per-thread default stream
};

inline constexpr CudaEntry kCudaTable[] = {
#define CU_ENTRY(name, version, symbol, per_thread) {#name, version, #symbol, per_thread},
#include "cuda/entries.api"
#undef CU_ENTRY
};

// The CUDA of the newest entry: 13050 for 13.5.
inline constexpr int kNewestVersion = std::max({
#define CU_ENTRY(name, version, symbol, per_thread) version,
#include "cuda/entries.api"
#undef CU_ENTRY
});

// Whether there is a form of `name`, of whatever version.
inline bool knows_cuda_entry(const char *name) {
  return std::ranges::any_of(kCudaTable,
                             [name](const CudaEntry &e) { return std::strcmp(e.name, name) == 0; });
}

// The form of `name` that a program built for `version` means, or CudaId::Count.
inline CudaId find_cuda_entry(const char *name, int version, bool per_thread) {
  CudaId best = CudaId::Count;
  for (size_t i = 0; i < kCudaEntries; i++) {
    const CudaEntry &e = kCudaTable[i];
    if (e.per_thread != per_thread || e.version > version || std::strcmp(e.name, name) != 0)
      continue;
    best = static_cast<CudaId>(i);  // the forms of one name are listed by ascending version
  }
  return best == CudaId::Count && per_thread ? find_cuda_entry(name, version, false) : best;
}

}  // namespace ckpt::api
