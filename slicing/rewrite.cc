// SPDX-License-Identifier: Apache-2.0
//
// The problem. The blocks of a grid are independent of each other (CUDA programming guide, section
// "Thread hierarchy"), so a grid of 300 blocks may run as three launches of 100, each short enough
// that another program gets the device in between. But a block knows its number and the size of the
// grid: the second launch would repeat the work of the first. The paper (docs/PAPERS.md, CM-1) has
// programmers change their kernels. Here the compiled code is changed instead.
//
// Example. A kernel before and after:
//
//   .visible .entry add(.param .u64 a)       .visible .entry add(.param .u64 a,
//                                              .param .align 4 .b8 ckpt_slice_parameter[24])
//   {                                        {
//     .reg .b32 %r<4>;                         .reg .b32 %ckpt_slice_b<3>;
//                                              ld.param.u32 %ckpt_slice_t, [ckpt_slice_parameter];
//                                              mov.u32 %ckpt_slice_b0, %ctaid.x;
//                                              add.u32 %ckpt_slice_b0, %ckpt_slice_b0,
//                                                %ckpt_slice_t;
//     mov.u32 %r1, %ctaid.x;                   mov.u32 %r1, %ckpt_slice_b0;
//
// The algorithm. The text is read once (outline.h). Each kernel that can be sliced gets one more
// parameter, a SliceArgument: a value for each launch, so that launches in several streams do not
// disturb each other, as they would with a variable of the module. At its beginning the kernel
// computes what %ctaid and %nctaid would be in the whole grid, for the axes that it uses, and reads
// these registers instead. A function that was not inlined has no access to a kernel's parameters:
// it reads a copy in shared memory, which each thread of a kernel that calls such functions writes
// at its beginning. All threads of a block write the same, and each reads after its own write, so
// no barrier is needed. A slice is a box of blocks (boxes.h), so one addition for each axis is all.
//
// A kernel that must run whole keeps its text, unless it calls such a function: then it has the
// parameter, too, and is launched with base 0.
//
// Cost. Linear in the text. Of the 10 kernels of tests/programs/cuda/slices.cu, two need more
// registers (ptxas 13.0, sm_90): 2 and 4.
#include "slicing/rewrite.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "common/base/rounded_up.h"
#include "ptx/lexer.h"
#include "ptx/module.h"
#include "slicing/reach.h"

namespace ckpt::slicing {
namespace {

constexpr std::string_view kReserved = "ckpt_slice";  // begins all names that are added
constexpr std::string_view kParameter = "ckpt_slice_parameter";
constexpr std::string_view kCopy = "ckpt_slice_copy";
constexpr char kAxes[] = {'x', 'y', 'z'};
// CUDA programming guide, "Function parameters": 32764 bytes from PTX 8.1 and sm_70 on.
constexpr u32 kMostParameterBytes = 32764;
constexpr u32 kMostParameterBytesBefore = 4096;

// A piece of text that replaces `bytes` bytes at `at`.
struct Edit {
  size_t at;
  size_t bytes;
  std::string text;
};

struct AxesRead {
  bool base[3] = {}, grid[3] = {};
};

AxesRead axes_of(const Routine &r) {
  AxesRead axes;
  for (const GridRead &read : r.reads)
    (read.what == GridRegister::Block ? axes.base : axes.grid)[read.axis] = true;
  return axes;
}

bool any(const AxesRead &axes) {
  return std::ranges::any_of(axes.base, std::identity()) ||
         std::ranges::any_of(axes.grid, std::identity());
}

// Loads one word of the SliceArgument.
std::string load(std::string_view to, bool kernel, int word) {
  return fmt::format("\n\tld.{}.u32 {}, [{}+{}];", kernel ? "param" : "shared", to,
                     kernel ? kParameter : kCopy, 4 * word);
}

// The registers that take the place of %ctaid and %nctaid, and the instructions that fill them.
std::string fill_registers(const AxesRead &axes, bool kernel) {
  std::string out;
  for (int i = 0; i < 3; ++i) {
    if (axes.base[i])
      out += load("%ckpt_slice_t", kernel, i) +
             fmt::format(
                 "\n\tmov.u32 %ckpt_slice_b{0}, %ctaid.{1};"
                 "\n\tadd.u32 %ckpt_slice_b{0}, %ckpt_slice_b{0}, %ckpt_slice_t;",
                 i, kAxes[i]);
    if (axes.grid[i]) out += load(fmt::format("%ckpt_slice_n{}", i), kernel, 3 + i);
  }
  return out;
}

// The copy that functions read.
std::string fill_copy() {
  std::string out;
  for (int word = 0; word < 6; ++word)
    out += load("%ckpt_slice_t", true, word) +
           fmt::format("\n\tst.shared.u32 [{}+{}], %ckpt_slice_t;", kCopy, 4 * word);
  return out;
}

std::string prologue(const Routine &r, bool copies) {
  AxesRead axes = axes_of(r);
  if (!any(axes) && !copies) return {};
  return "\n\t.reg .b32 %ckpt_slice_b<3>;\n\t.reg .b32 %ckpt_slice_n<3>;"
         "\n\t.reg .b32 %ckpt_slice_t;" +
         fill_registers(axes, r.is_kernel()) + (copies ? fill_copy() : "") + "\n";
}

std::string replacement(const GridRead &read) {
  return fmt::format("%ckpt_slice_{}{}", read.what == GridRegister::Block ? 'b' : 'n', read.axis);
}

class Rewriter {
 public:
  Rewriter(std::string_view text, const ptx::Module &module, const Outline &outline)
      : text_(text), module_(module), outline_(outline), reach_(reach_of(outline)) {}

  Result<Rewritten> run() {
    for (size_t i = 0; i < outline_.routines.size(); ++i) {
      const Routine &r = outline_.routines[i];
      if (r.is_kernel() && r.has_body())
        CKPT_CHECK(kernel(r, reach_[i]));
      else if (!r.is_kernel() && r.has_body() && !r.reads.empty())
        function(r);
    }
    declare_kernels();
    if (copy_used_) edit(module_.first, 0, fmt::format(".shared .align 4 .b8 {}[24];\n", kCopy));
    return Rewritten{text(), std::move(kernels_)};
  }

 private:
  u32 most_parameter_bytes() const {
    return outline_.version >= 81 && outline_.target >= 70 ? kMostParameterBytes
                                                           : kMostParameterBytesBefore;
  }

  Result<> kernel(const Routine &r, const Reach &reach) {
    Kernel k;
    k.name = r.name();
    u64 end = ptx::layout_of(r.declared->params).end;
    k.parameters = static_cast<u32>(r.declared->params.size());
    k.may_wait = reach.may_wait;
    k.uses_copy = reach.reads_in_function;
    if (reach.whole != nullptr) k.whole = reach.whole;
    bool fits = rounded_up(end, 4) + sizeof(SliceArgument) <= most_parameter_bytes();
    if (fits) k.slice_offset = static_cast<u32>(rounded_up(end, 4));
    if (!fits && k.uses_copy)
      return fail("the parameters of kernel {} leave no room for another one", k.name);
    if (!fits) k.whole = "its parameters leave no room for another one";
    k.takes_slice = k.whole.empty() || k.uses_copy;
    if (k.takes_slice) change(r, k.uses_copy);
    taken_[r.name()] = k.takes_slice;
    kernels_.push_back(std::move(k));
    return {};
  }

  void change(const Routine &r, bool copies) {
    copy_used_ |= copies;
    add_parameter(r);
    body(r, copies);
  }

  void function(const Routine &r) {
    copy_used_ = true;
    body(r, false);
  }

  void body(const Routine &r, bool copies) {
    edit(ptx::offset_in(text_, r.declared->body), 0, prologue(r, copies));
    for (const GridRead &read : r.reads) edit(read.at, read.bytes, replacement(read));
  }

  void add_parameter(const Routine &r) {
    std::string declaration = fmt::format(".param .align 4 .b8 {}[24]", kParameter);
    const ptx::Function &f = *r.declared;
    if (f.params_end == 0)
      edit(ptx::offset_in(text_, f.name) + f.name.size(), 0, "(" + declaration + ")");
    else
      edit(f.params_end, 0, (f.params.empty() ? "" : ",\n\t") + declaration);
  }

  // Declarations without a body must have the same parameters.
  void declare_kernels() {
    for (const Routine &r : outline_.routines)
      if (r.is_kernel() && !r.has_body())
        if (auto known = taken_.find(r.name()); known != taken_.end() && known->second)
          add_parameter(r);
  }

  void edit(size_t at, size_t bytes, std::string text) {
    edits_.push_back({at, bytes, std::move(text)});
  }

  std::string text() {
    std::ranges::stable_sort(edits_, {}, &Edit::at);
    std::string out;
    size_t done = 0;
    for (const Edit &e : edits_) {
      out += text_.substr(done, e.at - done);
      out += e.text;
      done = e.at + e.bytes;
    }
    return out += text_.substr(done);
  }

  std::string_view text_;
  const ptx::Module &module_;
  const Outline &outline_;
  std::vector<Reach> reach_;
  std::unordered_map<std::string_view, bool> taken_;
  std::vector<Kernel> kernels_;
  std::vector<Edit> edits_;
  bool copy_used_ = false;
};

}  // namespace

Result<Rewritten> rewrite(std::string_view ptx) {
  if (ptx.find(kReserved) != std::string_view::npos)
    return fail("it has names that begin with {}, which are reserved", kReserved);
  CKPT_TRY(ptx::Module module, ptx::read_module(ptx));
  CKPT_TRY(Outline outline, outline_of(ptx, module));
  if (outline.launches) return fail("its kernels launch kernels");
  return Rewriter(ptx, module, outline).run();
}

}  // namespace ckpt::slicing
