// SPDX-License-Identifier: Apache-2.0
//
// The pass for OpenCL C: it makes a source with kernels that can be launched in slices. See
// opencl_source.cc.
#pragma once

#include <array>
#include <string>
#include <string_view>

#include "slicing/boxes.h"

namespace ckpt::slicing {

// The most work-items of a launch in one dimension.
inline constexpr u64 kMostWorkItems = 0x7fffffff;

// A whole launch. `items` is a multiple of `group` in each dimension.
struct NdRange {
  u32 dims = 1;
  std::array<u64, 3> items{1, 1, 1}, group{1, 1, 1}, offset{};
};

// The form of the source that slices of the launch need: 0, or the number of its dimensions if it
// has a global offset.
inline constexpr u32 kForms = 4;
u32 form_of(const NdRange &range);
// The dimensions with which its slices are launched.
inline u32 slice_dims(const NdRange &range) { return form_of(range) == 0 ? range.dims : 3; }
// Whether slice_offset() has room for its numbers.
bool fits(const NdRange &range);
// The global offset of a slice that begins with group `first`.
std::array<u64, 3> slice_offset(const NdRange &range, const Dim &first);

// The source with the pass's declarations before it, and a check behind it: a program that defines
// work-item functions itself does not compile. Line numbers in the compiler's messages stay.
std::string sliced_source(std::string_view source, u32 form);

// Whether the text contains a function or type by which work-items see what others write while they
// run. Without one, no work-group can wait for another one.
bool may_wait(std::string_view source);

}  // namespace ckpt::slicing
