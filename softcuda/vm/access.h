// SPDX-License-Identifier: Apache-2.0
//
// From an address that a lane uses to the bytes on the host.
#pragma once

#include "softcuda/vm/warp.h"

namespace ckpt::softcuda::vm {

// The bytes at a generic, global or constant address, or nullptr when the lane may not access them.
// Stores the range that was found in `w.cache[site]`, which callers search first.
char *host_address(Warp &w, u32 site, u32 lane, u64 address, u32 bytes, bool write);
// The bytes at a shared address that names another block of the cluster, or nullptr.
char *cluster_address(const Warp &w, u64 address, u32 bytes);

}  // namespace ckpt::softcuda::vm
