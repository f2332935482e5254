// SPDX-License-Identifier: Apache-2.0
//
// The problem. A slice is a launch of some of a kernel's work-groups. Its work-items must get the
// numbers and sizes of the whole launch: get_group_id, get_global_id, get_global_size and so on. So
// the kernel needs six numbers that differ from launch to launch. An additional argument would have
// to be passed to every function that asks for a number, and macros may generate kernels, so only a
// compiler could add it.
//
// How it works. A launch already has a value for each dimension that every function can read: the
// global offset. Most programs leave it 0, so it is free. A slice is launched with
//
//   offset[d] = work-items of the whole launch in d << 32 | number of the slice's first group in d
//
// and the declarations below turn it back into numbers:
//
//   64 work-items in groups of 4; slices of 4 groups      1st slice   2nd slice   …
//   offset                                                64<<32 | 0  64<<32 | 4
//   get_group_id(0)     built-in 0…3  + low half          0…3         4…7
//   get_global_id(0)    group × size of a group + local   0…15        16…31
//   get_global_size(0)  high half                         64          64
//
// They are functions, because a macro cannot use the built-in function of its own name through
// another macro. Functions that are not inlined and macros of the program work as before. The
// global number is computed from the group's, not from the built-in get_global_id: the compiler
// recognises neighbouring work-items by it, and vectorises loops over them.
//
// A launch with an offset of its own needs up to three more numbers. Its slices always have three
// dimensions. Those that the program does not use have one work-item, so their offset is free:
//
//   program's dimensions   offset[0]         offset[1]         offset[2]
//   1                      items, group      program's         not used
//   2                      items, group      items, group      program's: 1st, and 2nd << 32
//   3                      packed            packed            packed
//
//   packed = program's offset << 5 + 2w | groups in d << 5 + w | first group << 5 | w
//
// where the number of groups in d has w bits. The number of dimensions is a constant of the source,
// from which get_work_dim is answered, too. So a program is compiled in up to four *forms*: for
// launches without an offset, and with one in one, two or three dimensions.
//
// A program may define a macro of such a name itself, often only for another compiler. What counts
// is the state at the end of its source, which the preprocessor checks there.
//
// Its cost: an addition and a multiplication for each number, which are the same for all work-items
// of a group (a few shifts more with an offset in three dimensions), and another compilation of the
// program for each form that its launches need.
//
// What it relies on: offsets of 64 bits that arrive unchanged. A launch checks that once for each
// device (libckpt-ocl/proxy/device/slice_test.cc).
//
// Source: OpenCL C specification 3.0, 6.15.1 (Work-Item Functions); OpenCL API, section 5.8
// (Executing Kernels).
#include "slicing/opencl_source.h"

#include <algorithm>
#include <array>
#include <bit>

#include <fmt/format.h>

namespace ckpt::slicing {
namespace {

// OpenCL C 1.1 has no static functions, and 1.x no linear numbers.
constexpr std::string_view kDeclarations =
    R"(#if __OPENCL_C_VERSION__ >= 120
#define CKPT_SLICE_FUNCTION static inline __attribute__((always_inline, unused))
#else
#define CKPT_SLICE_FUNCTION inline __attribute__((always_inline, unused))
#endif
#if CKPT_SLICE_FORM == 0
CKPT_SLICE_FUNCTION size_t ckpt_slice_first(uint d) { return get_global_offset(d) & 0xffffffff; }
CKPT_SLICE_FUNCTION size_t ckpt_slice_items(uint d) { return get_global_offset(d) >> 32; }
CKPT_SLICE_FUNCTION size_t ckpt_slice_offset(uint d) { return 0 * d; }
#elif CKPT_SLICE_FORM == 3
CKPT_SLICE_FUNCTION size_t ckpt_slice_from(uint d, uint bit) { return get_global_offset(d) >> bit; }
CKPT_SLICE_FUNCTION size_t ckpt_slice_width(uint d) { return ckpt_slice_from(d, 0) & 31; }
CKPT_SLICE_FUNCTION size_t ckpt_slice_part(uint d, uint bit) {
  return ckpt_slice_from(d, bit) & (((size_t)1 << ckpt_slice_width(d)) - 1);
}
CKPT_SLICE_FUNCTION size_t ckpt_slice_first(uint d) { return ckpt_slice_part(d, 5); }
CKPT_SLICE_FUNCTION size_t ckpt_slice_items(uint d) {
  return ckpt_slice_part(d, 5 + ckpt_slice_width(d)) * get_local_size(d);
}
CKPT_SLICE_FUNCTION size_t ckpt_slice_offset(uint d) {
  return ckpt_slice_from(d, 5 + 2 * ckpt_slice_width(d));
}
#else
CKPT_SLICE_FUNCTION size_t ckpt_slice_first(uint d) {
  return d < CKPT_SLICE_FORM ? get_global_offset(d) & 0xffffffff : 0;
}
CKPT_SLICE_FUNCTION size_t ckpt_slice_items(uint d) {
  return d < CKPT_SLICE_FORM ? get_global_offset(d) >> 32 : 0;
}
CKPT_SLICE_FUNCTION size_t ckpt_slice_offset(uint d) {
#if CKPT_SLICE_FORM == 1
  return d == 0 ? get_global_offset(1) : 0;
#else
  return d < 2 ? get_global_offset(2) >> 32 * d & 0xffffffff : 0;
#endif
}
#endif
CKPT_SLICE_FUNCTION size_t ckpt_slice_group(uint d) {
  return get_group_id(d) + ckpt_slice_first(d);
}
CKPT_SLICE_FUNCTION size_t ckpt_slice_place(uint d) {
  return ckpt_slice_group(d) * get_local_size(d) + get_local_id(d);
}
CKPT_SLICE_FUNCTION size_t ckpt_slice_global(uint d) {
  return ckpt_slice_place(d) + ckpt_slice_offset(d);
}
CKPT_SLICE_FUNCTION size_t ckpt_slice_size(uint d) {
  size_t items = ckpt_slice_items(d);
  return items == 0 ? 1 : items;
}
CKPT_SLICE_FUNCTION size_t ckpt_slice_groups(uint d) {
  return ckpt_slice_size(d) / get_local_size(d);
}
CKPT_SLICE_FUNCTION size_t ckpt_slice_linear(void) {
  return (ckpt_slice_place(2) * ckpt_slice_size(1) + ckpt_slice_place(1)) * ckpt_slice_size(0) +
         ckpt_slice_place(0);
}
#define get_group_id(d) ckpt_slice_group(d)
#define get_global_id(d) ckpt_slice_global(d)
#define get_global_size(d) ckpt_slice_size(d)
#define get_num_groups(d) ckpt_slice_groups(d)
#define get_global_offset(d) ckpt_slice_offset(d)
#if CKPT_SLICE_FORM > 0
#define get_work_dim() CKPT_SLICE_FORM
#endif
#if __OPENCL_C_VERSION__ >= 200
#define get_global_linear_id() ckpt_slice_linear()
#endif
#line 1
)";

// Behind the source: a program that has replaced one of the macros does not compile.
constexpr std::string_view kCheck = R"(
#define ckpt_slice_group(d) 1
#define ckpt_slice_global(d) 2
#define ckpt_slice_size(d) 3
#define ckpt_slice_groups(d) 4
#define ckpt_slice_offset(d) 5
#if get_group_id(0) != 1 || get_global_id(0) != 2 || get_global_size(0) != 3 || \
    get_num_groups(0) != 4 || get_global_offset(0) != 5
#error the program defines a work-item function itself
#endif
#if CKPT_SLICE_FORM > 0
#if get_work_dim() != CKPT_SLICE_FORM
#error the program defines get_work_dim itself
#endif
#endif
)";

// Parts of names: atomic_add, atomic_int, atom_cmpxchg, mem_fence, read_mem_fence…
constexpr std::array<std::string_view, 5> kShared = {"volatile", "atom", "mem_fence",
                                                     "CLK_GLOBAL_MEM_FENCE", "coherent"};

// In form 3.
constexpr u32 kWidthBits = 5;
u32 width_of(const NdRange &range, size_t d) {
  return static_cast<u32>(std::bit_width(range.items[d] / range.group[d]));
}

u64 plain(const NdRange &range, const Dim &first, size_t d) {
  return range.items[d] << 32 | first[d];
}

u64 packed(const NdRange &range, const Dim &first, size_t d) {
  const u32 w = width_of(range, d);
  const u64 groups = range.items[d] / range.group[d];
  return ((range.offset[d] << w | groups) << w | first[d]) << kWidthBits | w;
}

// The sum of an offset and a size must not exceed the device's size_t, hence 63 bits.
bool offset_fits(const NdRange &range, size_t d) {
  const auto bits = static_cast<u32>(std::bit_width(range.offset[d]));
  switch (form_of(range)) {
    case 0: return true;
    case 1: return bits <= 63;
    case 2: return bits <= 31;
    default: return bits + 2 * width_of(range, d) + kWidthBits <= 63;
  }
}

}  // namespace

u32 form_of(const NdRange &range) { return range.offset == std::array<u64, 3>{} ? 0 : range.dims; }

bool fits(const NdRange &range) {
  for (size_t d = 0; d < range.dims; d++)
    if (range.items[d] > kMostWorkItems || !offset_fits(range, d)) return false;
  return true;
}

std::array<u64, 3> slice_offset(const NdRange &range, const Dim &first) {
  std::array<u64, 3> offset{};
  const u32 form = form_of(range);
  for (size_t d = 0; d < range.dims; d++)
    offset[d] = form == 3 ? packed(range, first, d) : plain(range, first, d);
  if (form == 1) offset[1] = range.offset[0];
  if (form == 2) offset[2] = range.offset[1] << 32 | range.offset[0];
  return offset;
}

std::string sliced_source(std::string_view source, u32 form) {
  return fmt::format("#define CKPT_SLICE_FORM {}\n", form)
      .append(kDeclarations)
      .append(source)
      .append(kCheck);
}

bool may_wait(std::string_view source) {
  return std::ranges::any_of(
      kShared, [&](auto name) { return source.find(name) != std::string_view::npos; });
}

}  // namespace ckpt::slicing
