// SPDX-License-Identifier: Apache-2.0
//
// The pass for OpenCL C: it makes a source with kernels that can be launched in slices. See
// opencl_source.cc.
#pragma once

#include <string>
#include <string_view>

#include "slicing/boxes.h"

namespace ckpt::slicing {

// The most work-items of a launch in one dimension.
inline constexpr u64 kMostWorkItems = 0x7fffffff;

// The source with the pass's declarations before it, and a check behind it: a program that defines
// work-item functions itself does not compile. Line numbers in the compiler's messages stay.
std::string sliced_source(std::string_view source);

// Whether the text contains a function or type by which work-items see what others write while they
// run. Without one, no work-group can wait for another one.
bool may_wait(std::string_view source);

// The global offset with which a slice is launched: in dimension d it begins with group `base`, and
// the whole launch has `items` work-items (at most kMostWorkItems).
constexpr u64 slice_offset(u32 base, u64 items) { return items << 32 | base; }

}  // namespace ckpt::slicing
