// SPDX-License-Identifier: Apache-2.0
//
// The problem. A slice is a launch of some of a kernel's work-groups. Its work-items must get the
// numbers and sizes of the whole launch: get_group_id, get_global_id, get_global_size and so on. So
// the kernel needs six numbers that differ from launch to launch. An additional argument would have
// to be passed to every function that asks for a number, and macros may generate kernels, so only a
// compiler could add it.
//
// How it works. A launch already has a value for each dimension that every function can read: the
// global offset. The program's own offset is 0 (a launch with another one runs whole), so it is
// free. A slice is launched with
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
// A program may define a macro of such a name itself, often only for another compiler. What counts
// is the state at the end of its source, which the preprocessor checks there.
//
// Its cost: an addition and a multiplication for each number, which are the same for all work-items
// of a group, and a second compilation of the program.
//
// What it relies on: offsets of 64 bits that arrive unchanged. A launch checks that once for each
// device (libckpt-ocl/proxy/serve/slices.cc).
//
// Source: OpenCL C specification 3.0, 6.15.1 (Work-Item Functions); OpenCL API, section 5.8
// (Executing Kernels).
#include "slicing/opencl_source.h"

#include <algorithm>
#include <array>

namespace ckpt::slicing {
namespace {

// OpenCL C 1.1 has no static functions, and 1.x no linear numbers.
constexpr std::string_view kDeclarations =
    R"(#if __OPENCL_C_VERSION__ >= 120
#define CKPT_SLICE_FUNCTION static inline __attribute__((always_inline, unused))
#else
#define CKPT_SLICE_FUNCTION inline __attribute__((always_inline, unused))
#endif
CKPT_SLICE_FUNCTION size_t ckpt_slice_group(uint d) {
  return get_group_id(d) + (get_global_offset(d) & 0xffffffff);
}
CKPT_SLICE_FUNCTION size_t ckpt_slice_global(uint d) {
  return ckpt_slice_group(d) * get_local_size(d) + get_local_id(d);
}
CKPT_SLICE_FUNCTION size_t ckpt_slice_size(uint d) {
  size_t items = get_global_offset(d) >> 32;
  return items == 0 ? 1 : items;
}
CKPT_SLICE_FUNCTION size_t ckpt_slice_groups(uint d) {
  return ckpt_slice_size(d) / get_local_size(d);
}
CKPT_SLICE_FUNCTION size_t ckpt_slice_linear(void) {
  return (ckpt_slice_global(2) * ckpt_slice_size(1) + ckpt_slice_global(1)) * ckpt_slice_size(0) +
         ckpt_slice_global(0);
}
CKPT_SLICE_FUNCTION size_t ckpt_slice_offset(uint d) {
  return 0 * d;
}
#define get_group_id(d) ckpt_slice_group(d)
#define get_global_id(d) ckpt_slice_global(d)
#define get_global_size(d) ckpt_slice_size(d)
#define get_num_groups(d) ckpt_slice_groups(d)
#define get_global_offset(d) ckpt_slice_offset(d)
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
)";

// Parts of names: atomic_add, atomic_int, atom_cmpxchg, mem_fence, read_mem_fence…
constexpr std::array<std::string_view, 5> kShared = {"volatile", "atom", "mem_fence",
                                                     "CLK_GLOBAL_MEM_FENCE", "coherent"};

}  // namespace

std::string sliced_source(std::string_view source) {
  return std::string(kDeclarations).append(source).append(kCheck);
}

bool may_wait(std::string_view source) {
  return std::ranges::any_of(
      kShared, [&](auto name) { return source.find(name) != std::string_view::npos; });
}

}  // namespace ckpt::slicing
