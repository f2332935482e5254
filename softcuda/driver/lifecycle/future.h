// SPDX-License-Identifier: Apache-2.0
//
// What a driver offers that is newer than cuda/entries.api, and so newer than ckpt: with
// CKPT_SOFTCUDA_DRIVER above the newest version in that table, and for programs that ask for such a
// version. These entries have no symbols, since a library knows only those of its time.
#pragma once

namespace ckpt::softcuda::driver {

// Null: nothing new has this name.
//
//   cuMemsetD8      a newer form: (CUdeviceptr, unsigned char, size_t, unsigned flags)
//   cuMemsetFuture  a new entry: (CUdeviceptr, float, size_t n, int two, int three, int four,
//                   int five, int six) writes n floats, if the numbers are what they are called
void *future_entry(const char *name);

}  // namespace ckpt::softcuda::driver
