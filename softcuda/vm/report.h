// SPDX-License-Identifier: Apache-2.0
//
// Each of these ends the kernel and names the fault of one lane.
#pragma once

#include "softcuda/vm/texture.h"
#include "softcuda/vm/warp.h"

namespace ckpt::softcuda::vm {

// An access to `bytes` bytes that is misaligned or out of bounds.
void report_address(Warp &w, const Op &o, u32 lane, u64 address, u32 bytes, bool write);
// An access outside of a surface, by an instruction with .trap.
void report_outside(Warp &w, const Op &o, const i32 *coordinates);
// The texture or surface behind a handle. nullptr: the handle was invalid, and the kernel has
// ended.
const Texture *texture_of(Warp &w, const Op &o, u64 handle);

}  // namespace ckpt::softcuda::vm
