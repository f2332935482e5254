// SPDX-License-Identifier: Apache-2.0
//
// What a library's kernels and a module's functions have in common: a map by name, and three ways
// to read it. A null `owner` stands for a handle that is not live.
#pragma once

#include "softcuda/driver/state/process.h"

namespace ckpt::softcuda::driver {

template <class Owner, class Entries, class Handle>
CUresult find_entry(Owner *owner, Entries Owner::*entries, const char *name, Handle *out) {
  REQUIRE(out != nullptr && name != nullptr, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(owner != nullptr, CUDA_ERROR_INVALID_HANDLE);
  auto it = (owner->*entries).find(name);
  REQUIRE(it != (owner->*entries).end(), CUDA_ERROR_NOT_FOUND);
  *out = reinterpret_cast<Handle>(it->second.get());
  return CUDA_SUCCESS;
}

template <class Owner, class Entries>
CUresult count_entries(Owner *owner, Entries Owner::*entries, unsigned int *count) {
  REQUIRE(count != nullptr, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(owner != nullptr, CUDA_ERROR_INVALID_HANDLE);
  *count = static_cast<unsigned>((owner->*entries).size());
  return CUDA_SUCCESS;
}

// Writes the handles of the first `n` entries.
template <class Owner, class Entries, class Handle>
CUresult list_entries(Owner *owner, Entries Owner::*entries, Handle *out, unsigned int n) {
  REQUIRE(out != nullptr, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(owner != nullptr, CUDA_ERROR_INVALID_HANDLE);
  for (auto &[name, entry] : owner->*entries) {
    if (n == 0) break;
    *out++ = reinterpret_cast<Handle>(entry.get());
    --n;
  }
  return CUDA_SUCCESS;
}

}  // namespace ckpt::softcuda::driver
