// SPDX-License-Identifier: Apache-2.0
#include "slicing/rewrite.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "tests/unit/ptx/declarations.h"

using namespace ckpt;
using namespace ckpt::slicing;

namespace {

const std::string kHeader = ".version 8.3\n.target sm_90\n.address_size 64\n";

Rewritten rewritten(const std::string &body) {
  Result<Rewritten> r = rewrite(kHeader + body);
  REQUIRE_MESSAGE(r, (r ? "" : r.error().what));
  return std::move(*r);
}

bool has(const std::string &text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

const Kernel &kernel(const Rewritten &r, std::string_view name) {
  auto found = std::ranges::find(r.kernels, name, &Kernel::name);
  REQUIRE(found != r.kernels.end());
  return *found;
}

}  // namespace

TEST_CASE("a kernel gets one more parameter and reads its block number from it") {
  Rewritten r = rewritten(
      ".visible .entry add(\n\t.param .u64 a,\n\t.param .u8 b\n)\n{\n\t.reg .b32 %r<4>;\n"
      "\tmov.u32 %r1, %ctaid.x;\n\tmov.u32 %r2, %nctaid.y;\n\tret;\n}\n");
  const Kernel &k = kernel(r, "add");
  CHECK(k.takes_slice);
  CHECK(k.whole.empty());
  CHECK(k.parameters == 2);
  CHECK(k.slice_offset == 12);
  CHECK(has(r.ptx, "b\n,\n\t.param .align 4 .b8 ckpt_slice_parameter[24])"));
  CHECK(has(r.ptx, "mov.u32 %r1, %ckpt_slice_b0;"));
  CHECK(has(r.ptx, "mov.u32 %r2, %ckpt_slice_n1;"));
  CHECK(has(r.ptx, "ld.param.u32 %ckpt_slice_n1, [ckpt_slice_parameter+16];"));
  CHECK_FALSE(has(r.ptx, "ckpt_slice_copy"));
}

TEST_CASE("a kernel without parameters, with and without parentheses, gets its first") {
  Rewritten r =
      rewritten(".entry a() { ret; }\n.entry b { ret; }\n.entry c .maxntid 32 { ret; }\n");
  const std::string list = "(.param .align 4 .b8 ckpt_slice_parameter[24])";
  CHECK(has(r.ptx, ".entry a" + list + " {"));
  CHECK(has(r.ptx, ".entry b" + list + " {"));
  CHECK(has(r.ptx, ".entry c" + list + " .maxntid 32 {"));
  CHECK(kernel(r, "b").slice_offset == 0);
}

TEST_CASE("declarations mean what ptx/ says") {
  for (const ptx::test::DeclaredBytes &d : ptx::test::kDeclarations) {
    CAPTURE(d.text);
    Result<Rewritten> r =
        rewrite(ptx::test::module_with(std::string(d.text) + "\n.entry k() { ret; }"));
    REQUIRE(r);
    // Also one that cannot be read stays.
    CHECK(has(r->ptx, d.text));
  }
  for (const ptx::test::DeclaredParameters &d : ptx::test::kParameters) {
    CAPTURE(d.text);
    Result<Rewritten> r =
        rewrite(ptx::test::module_with(".entry k(" + std::string(d.text) + ") { ret; }"));
    REQUIRE(r.has_value() == (d.end != 0));
    if (!r) continue;
    CHECK(r->kernels.at(0).slice_offset == (d.end + 3) / 4 * 4);
    CHECK(r->kernels.at(0).parameters == d.offsets.size());
  }
}

TEST_CASE("comments and strings are no code") {
  Rewritten r =
      rewritten(".entry a() { // %ctaid.x }\n /* %ctaid.y } */ .pragma \"%gridid }\"; ret; }\n");
  CHECK(kernel(r, "a").whole.empty());
  CHECK(has(r.ptx, "// %ctaid.x }"));
}

TEST_CASE(
    "a function that reads the grid reads the shared copy, which its callers' callers write") {
  Rewritten r = rewritten(
      ".func (.param .b32 x) deep() { mov.u32 %r1, %ctaid.z; ret; }\n"
      ".func (.param .b32 x) deeper() { call (r), deep, (); ret; }\n"
      ".entry calls() { call.uni (r), deeper, (); ret; }\n"
      ".entry other() { ret; }\n");
  CHECK(kernel(r, "calls").uses_copy);
  CHECK_FALSE(kernel(r, "other").uses_copy);
  CHECK(has(r.ptx, ".address_size 64\n.shared .align 4 .b8 ckpt_slice_copy[24];\n.func"));
  CHECK(has(r.ptx, "ld.shared.u32 %ckpt_slice_t, [ckpt_slice_copy+8];"));
  CHECK(has(r.ptx, "st.shared.u32 [ckpt_slice_copy+20], %ckpt_slice_t;"));
}

TEST_CASE("a call through a pointer may reach every function") {
  Rewritten r = rewritten(
      ".func (.param .b32 x) deep() { mov.u32 %r1, %ctaid.z; ret; }\n"
      ".entry calls() { call (r), %rd1, (), proto; ret; }\n");
  CHECK(kernel(r, "calls").uses_copy);
}

TEST_CASE("kernels that need the whole grid at once are named with the reason") {
  Rewritten r = rewritten(
      ".entry grid() { mov.u64 %rd1, %gridid; ret; }\n"
      ".entry cooperative() { mov.u32 %r1, %envreg2; ret; }\n"
      ".entry cluster() { barrier.cluster.arrive; ret; }\n"
      ".entry declared() .reqnctapercluster 2, 1, 1 { ret; }\n"
      ".entry place() { mov.u32 %r1, %cluster_ctarank; ret; }\n"
      ".entry vector() { mov.v4.u32 {%r1,%r2,%r3,%r4}, %ctaid; ret; }\n"
      ".entry plain() { ret; }\n");
  for (const Kernel &k : r.kernels) {
    INFO(k.name);
    CHECK(k.whole.empty() == (k.name == "plain"));
    CHECK(k.takes_slice == (k.name == "plain"));
  }
  CHECK(has(r.ptx, ".entry grid() { mov.u64 %rd1, %gridid; ret; }"));
}

TEST_CASE("a kernel that runs whole and calls a changed function has the parameter too") {
  Rewritten r = rewritten(
      ".func deep() { mov.u32 %r1, %ctaid.x; mov.u64 %rd1, %gridid; ret; }\n"
      ".entry calls() { call deep; ret; }\n");
  CHECK_FALSE(kernel(r, "calls").whole.empty());
  CHECK(kernel(r, "calls").takes_slice);
}

TEST_CASE("a module with kernels that launch kernels stays as it is") {
  Result<Rewritten> r = rewrite(kHeader +
                                ".extern .func (.param .b32 r) cudaLaunchDeviceV2(.param .b64 a);\n"
                                ".entry a() { call (r), cudaLaunchDeviceV2, (x); ret; }\n");
  CHECK_FALSE(r);
}

TEST_CASE("only what sees the writes of other blocks may wait for them") {
  auto waits = [](const std::string &instruction) {
    return rewritten(".entry a() { " + instruction + "; ret; }\n").kernels.at(0).may_wait;
  };
  CHECK(waits("ld.volatile.global.u32 %r1, [%rd1]"));
  CHECK(waits("ld.acquire.gpu.global.u32 %r1, [%rd1]"));
  CHECK(waits("atom.global.add.u32 %r1, [%rd1], 1"));
  CHECK_FALSE(waits("ld.global.u32 %r1, [%rd1]"));
  CHECK_FALSE(waits("atom.shared.add.u32 %r1, [%r2], 1"));
  CHECK_FALSE(waits("bar.sync 0"));
}

TEST_CASE("a kernel with parameters that fill the limit runs whole") {
  std::string old = ".version 7.0\n.target sm_75\n.address_size 64\n";
  Result<Rewritten> r = rewrite(old + ".entry a(.param .align 4 .b8 x[4080]) { ret; }\n");
  REQUIRE(r);
  CHECK_FALSE(r->kernels.at(0).whole.empty());
  CHECK_FALSE(r->kernels.at(0).takes_slice);
  CHECK(rewritten(".entry a(.param .align 4 .b8 x[4080]) { ret; }\n").kernels.at(0).takes_slice);
}

TEST_CASE("a declaration of a kernel changes with its definition") {
  Rewritten r = rewritten(".entry a(.param .u64 x);\n.entry a(.param .u64 x) { ret; }\n");
  size_t first = r.ptx.find("ckpt_slice_parameter");
  CHECK(r.ptx.find("ckpt_slice_parameter", first + 1) != std::string::npos);
}

TEST_CASE("sections, variables and broken text are skipped") {
  Rewritten r = rewritten(
      ".global .align 4 .b8 x[4] = {1, 2, 3, 4};\n.alias f, g;\n"
      ".entry a() { ret; }\n.section .debug_info\n{\n.b8 1\n}\n.entry b() { ret; }\n");
  CHECK(r.kernels.size() == 2);
  CHECK_FALSE(rewrite(kHeader + ".entry b() { mov.u32 %r1, %ctaid.x"));
  CHECK_FALSE(rewrite("hello"));
  CHECK_FALSE(rewrite(""));
}

TEST_CASE("rewritten text is not rewritten again") {
  Rewritten r = rewritten(".entry a() { ret; }\n");
  CHECK_FALSE(rewrite(r.ptx));
}
