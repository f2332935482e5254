// SPDX-License-Identifier: Apache-2.0
#include "fatbin/ptx.h"

#include <algorithm>

#include "tests/unit/fatbin/support.h"
#include "tests/unit/ptx/declarations.h"

namespace ckpt::fatbin::test {
namespace {

const std::string kHead = ".version 9.0\n.target sm_90a, debug\n.address_size 64\n";

CodeFacts facts(const std::string &text) { return must(facts_of_ptx(kHead + text)); }

TEST_CASE("parameters are laid out as the PTX ISA specifies") {
  CodeFacts f = facts(R"(
// .visible .entry not_me(.param .u64 a)
/* .entry nor_me() { } */
.visible .entry _Z1kPf(
	.param .u8 a,
	.param .align 16 .b8 b[24], // a struct
	.param .f16 c,
	.param .u64 .ptr .global .align 128 d,
	.param .v4 .f32 e
)
.maxntid 128, 1, 1
.minnctapersm 2
{
	.reg .b32 	%r<2>;
	{ .param .b64 param0; call.uni f, (param0); }
	ret;
}
.entry none()
{
	ret;
}
.visible .entry declared_only(.param .u64 p);
)");
  CHECK(f.target == "sm_90a");
  REQUIRE(f.kernels.size() == 2);
  CHECK(f.kernels[0] == Kernel{"_Z1kPf", {{0, 1}, {16, 24}, {40, 2}, {48, 8}, {64, 16}}, 80});
  CHECK(f.kernels[1] == Kernel{"none", {}, 0});
}

TEST_CASE("declarations mean what ptx/ says") {
  for (const ptx::test::DeclaredBytes &d : ptx::test::kDeclarations) {
    CAPTURE(d.text);
    CodeFacts f = must(facts_of_ptx(ptx::test::module_with(d.text)));
    auto x = std::ranges::find(f.variables, "x", &Variable::name);
    CHECK((x == f.variables.end() ? 0 : x->bytes) == d.bytes);
  }
  for (const ptx::test::DeclaredParameters &d : ptx::test::kParameters) {
    CAPTURE(d.text);
    Result<CodeFacts> f =
        facts_of_ptx(ptx::test::module_with(".entry k(" + std::string(d.text) + ") { ret; }"));
    REQUIRE(f.has_value() == (d.end != 0));
    if (f) CHECK(f->kernels.at(0).parameter_bytes == d.end);
  }
}

TEST_CASE("variables have sizes and spaces, and compiler-generated ones are left out") {
  CodeFacts f = facts(R"(
.global .align 4 .b8 counter[400];
.visible .const .align 8 .v2 .f64 table[3][2];
.global .attribute(.managed) .align 4 .b8 seen[28];
.global .attribute(.unified(1, 2)) .u32 unified;
.extern .global .u32 elsewhere;
.extern .shared .align 16 .b8 dynamic[];
.shared .u32 fast[32];
.global .u16 guessed[] = {1, 2, 3};
.global .u32 a = 1, b[2] = {0x1, 0x2}, c;
.global .align 1 .b8 $str[7] = {104, 105};
.global .align 1 .b8 __unnamed_1[2] = {104};
.visible .global .align 8 .u64 pointer = generic(counter);
.weak .global .b128 wide;
)");
  std::vector<Variable> expected = {{"counter", Space::Global, 400}, {"table", Space::Constant, 96},
                                    {"seen", Space::Managed, 28},    {"unified", Space::Global, 4},
                                    {"guessed", Space::Global, 6},   {"a", Space::Global, 4},
                                    {"b", Space::Global, 8},         {"c", Space::Global, 4},
                                    {"pointer", Space::Global, 8},   {"wide", Space::Global, 16}};
  CHECK(f.variables == expected);
  CHECK(f.references.empty());
}

TEST_CASE("texture, surface and sampler references are read") {
  CodeFacts f = facts(R"(
.global .texref t;
.global .surfref s;
.global .samplerref m = { addr_mode_0 = wrap, filter_mode = linear };
)");
  std::vector<Reference> expected = {
      {"t", ReferenceKind::Texture}, {"s", ReferenceKind::Surface}, {"m", ReferenceKind::Sampler}};
  CHECK(f.references == expected);
}

TEST_CASE("function names reveal heap use, printf and launches") {
  std::string declaration = "(.param .b64 p)\n;\n";
  CHECK(facts(".extern .func (.param .b64 r) malloc" + declaration).heap_function == "malloc");
  CHECK(facts(".extern .func (.param .b32 r) __cudaCDP2Malloc" + declaration).heap_function ==
        "__cudaCDP2Malloc");
  CHECK(facts(".extern .func free" + declaration).heap_function.empty());
  // A function named malloc that the program defines itself is an ordinary function.
  CHECK(facts(".visible .func (.param .b64 r) malloc(.param .b64 n)\n{ ret; }")
            .heap_function.empty());
  CHECK(facts(".extern .func (.param .b32 r) vprintf" + declaration).prints);
  CHECK(!facts(".extern .func __assertfail" + declaration).prints);
  CHECK(facts(".extern .func (.param .b32 r) __cudaCDP2LaunchDeviceV2" + declaration).launches);
  CHECK(!facts(".extern .func (.param .b32 r) cudaGetDevice" + declaration).launches);
  CHECK(facts(".visible .global .u32 __CNPRT_VERSION_NUMBER__ = 6000;").is_device_runtime);
}

TEST_CASE("texture and surface instructions are recognised") {
  auto body = [](const std::string &line) { return facts(".entry k()\n{\n" + line + "\n}\n"); };
  CHECK(body("tex.2d.v4.f32.s32 {%f1}, [%rd1, {%r1}];").uses_textures == true);
  CHECK(body("@%p1 tld4.r.2d.v4.f32.f32 {%f1}, [t];").uses_textures == true);
  CHECK(body("{ { suld.b.1d.b32.trap %r2, [s, {%r1}]; } }").uses_surfaces == true);
  CHECK(body("// tex.2d\n tex: mov.u32 sust, tex;").uses_textures == false);
  CHECK(body("mov.u32 %r1, 0;").uses_surfaces == false);
}

TEST_CASE("debug sections and file names are skipped") {
  CodeFacts f = facts(R"(
.file	1 "/tmp/{;.entry x(.cu"
.section	.debug_info
{
.b32 9 // .entry k() {
.b8 4
}
.visible .entry k() { .loc 1 2 3 ret; }
)");
  REQUIRE(f.kernels.size() == 1);
  CHECK(f.kernels[0].name == "k");
}

TEST_CASE("truncated and malformed text does not crash the reader") {
  std::string whole =
      kHead + ".global .b8 x[4] = {1};\n.visible .entry k(.param .u64 p)\n{ { ret; } }\n";
  for (size_t n = 0; n < whole.size(); ++n)
    (void)facts_of_ptx(std::string_view(whole).substr(0, n));
  CHECK(!facts_of_ptx(""));
  CHECK(contains(facts_of_ptx("hello").error().what, ".target"));
  CHECK(!facts_of_ptx(kHead + ".entry k(.param .b8 p[65537]) { ret; }"));
  CHECK(facts("} ) ] ; , .entry").kernels.empty());
}

TEST_CASE("names are limited") {
  CHECK(!facts_of_ptx(kHead + ".global .b8 " + std::string(300u << 10, 'x') + ";"));
  std::string many = kHead + ".global .b8 ";
  for (int i = 0; i < 700; ++i) many += std::string(100u << 10, 'x') + ",";
  CHECK(contains(facts_of_ptx(many + "x;").error().what, "exceed the limits"));
}

}  // namespace
}  // namespace ckpt::fatbin::test
