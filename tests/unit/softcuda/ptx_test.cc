// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "softcuda/ptx/loaded_module.h"
#include "softcuda/vm/kernel.h"
#include "tests/unit/ptx/declarations.h"

namespace ckpt::softcuda {
namespace {

const std::string kHead = ".version 8.0\n.target sm_75\n.address_size 64\n";

std::string error_of(const std::string &text) {
  Result<std::unique_ptr<ptx::LoadedModule>> m = ptx::parse_module(text);
  return m ? "" : m.error().what;
}

// The error of linking the kernel `k`, or "".
std::string kernel_error(const std::string &text) {
  Result<std::unique_ptr<ptx::LoadedModule>> m = ptx::parse_module(kHead + text);
  if (!m) return m.error().what;
  std::vector<std::unique_ptr<ptx::LoadedModule>> modules;
  modules.push_back(std::move(*m));
  Result<std::unique_ptr<vm::Image>> image = vm::Image::link(std::move(modules));
  REQUIRE(image);
  const vm::Symbol *s = (*image)->find("k");
  REQUIRE(s != nullptr);
  Result<std::unique_ptr<vm::Kernel>> k = vm::Kernel::link(**image, *s);
  return k ? "" : k.error().what;
}

}  // namespace

TEST_CASE("declarations mean what ptx/ says") {
  for (const ptx::test::DeclaredBytes &d : ptx::test::kDeclarations) {
    CAPTURE(d.text);
    Result<std::unique_ptr<ptx::LoadedModule>> m =
        ptx::parse_module(ptx::test::module_with(d.text));
    REQUIRE(m.has_value() == (d.bytes != 0));
    if (!m) continue;
    std::vector<std::unique_ptr<ptx::LoadedModule>> modules;
    modules.push_back(std::move(*m));
    Result<std::unique_ptr<vm::Image>> image = vm::Image::link(std::move(modules));
    REQUIRE(image);
    const vm::Symbol &x = *(*image)->find("x");
    CHECK(x.variable->bytes == d.bytes);
    CHECK(x.offset % d.align == 0);
    (*image)->place(ptx::test::kAddress, 0);
    Result<std::vector<std::byte>> contents = (*image)->initial(x.variable->managed);
    REQUIRE(contents);
    for (size_t i = 0; i < d.bytes; ++i)
      CHECK((*contents)[x.offset + i] == ptx::test::byte_of(d.initial, i));
  }
  for (const ptx::test::DeclaredParameters &d : ptx::test::kParameters) {
    CAPTURE(d.text);
    Result<std::unique_ptr<ptx::LoadedModule>> m =
        ptx::parse_module(ptx::test::module_with(".entry k(" + std::string(d.text) + ") { ret; }"));
    REQUIRE(m.has_value() == (d.end != 0));
    if (m) CHECK(vm::parameter_bytes((*m)->functions.at(0)) == d.end);
  }
}

TEST_CASE("invalid PTX is refused, and the error names the line") {
  CHECK(error_of("").find(".target") != std::string::npos);
  CHECK(error_of("\x7f"
                 "ELF")
            .find("not PTX") != std::string::npos);
  CHECK(error_of(kHead + "\n.visible .entry k( { ret; }").find("line 5") != std::string::npos);
  CHECK(error_of(kHead + ".visible .entry k() { ret;").find("missing") != std::string::npos);
  CHECK(error_of(kHead + ".global .b8 x[99999999999999999999];") != "");
  CHECK(error_of(kHead + ".global .b64 x[9000000000000000000];").find("too large") !=
        std::string::npos);
  CHECK(error_of(kHead + ".global .u32 x[1] = {1, 2};").find("too long") != std::string::npos);
  CHECK(error_of(".version 8.0\n.target sm_75\n.address_size 32\n").find("32-bit") !=
        std::string::npos);
}

TEST_CASE("the error of a kernel that cannot run names the instruction and its line") {
  CHECK(kernel_error(".entry k()\n{\n  ret;\n}\n") == "");
  CHECK(kernel_error(".entry k()\n{\n  .reg .b32 %r<3>;\n  mma.magic %r1, %r2;\n}\n")
            .find("k: PTX line 7: mma.magic") != std::string::npos);
  CHECK(kernel_error(".entry k() { bra nowhere; }").find("nowhere") != std::string::npos);
  CHECK(kernel_error(".entry k() { .reg .b32 %r<2>; add.u32 %r1, %r1, %r2; }").find("%r2") !=
        std::string::npos);
  CHECK(kernel_error(".entry k() { .reg .b32 %r<2>; ld.global.u32 %r1; }") != "");
  CHECK(kernel_error(".entry k() { .reg .pred %p; .reg .b32 %r; add.u32 %p, %r, %r; }") != "");
  CHECK(kernel_error(".entry k() { .reg .b32 %r<2000000>; ret; }").find("too many registers") !=
        std::string::npos);
  CHECK(kernel_error(".extern .func f();\n.entry k() { call f; }")
            .find("neither defined nor known") != std::string::npos);
  std::string deep(5000, '{');
  CHECK(kernel_error(".entry k() {" + deep + std::string(5000, '}') + "}").find("too deeply") !=
        std::string::npos);
}

TEST_CASE("forms of texture instructions are told apart by their operands") {
  auto error = [](const std::string &instruction) {
    return kernel_error(
        ".entry k() {\n"
        "  .reg .f32 f<9>; .reg .b32 r<4>; .reg .b64 h; .reg .pred p;\n  " +
        instruction + ";\n}\n");
  };
  const std::string kValues = " {f0, f1, f2, f3}", kPlace = ", [h, {f4, f5}]";
  for (const char *form : {"tex.2d", "tex.base.2d"})
    CHECK(error(form + (".v4.f32.f32" + kValues + kPlace)) == "");
  CHECK(error("tex.2d.v4.f32.f32" + kValues + "|p" + kPlace) == "");
  CHECK(error("tex.level.2d.v4.f32.f32" + kValues + kPlace + ", f6") == "");
  CHECK(error("tex.level.2d.v4.f32.s32" + kValues + ", [h, {r0, r1}], r2") == "");
  CHECK(error("tex.grad.2d.v4.f32.f32" + kValues + kPlace + ", {f4, f5}, {f6, f7}") == "");
  CHECK(error("tex.acube.v4.f32.f32" + kValues + ", [h, {r0, f4, f5, f6}]") == "");
  // An offset, a depth to compare with, what is missing.
  const std::string kRefused[] = {"tex.2d.v4.f32.f32" + kValues + kPlace + ", {r0, r1}",
                                  "tex.2d.v4.f32.f32" + kValues + kPlace + ", f6",
                                  "tex.level.2d.v4.f32.f32" + kValues + kPlace,
                                  "tex.level.2d.v4.f32.f32" + kValues + kPlace + ", f6, {r0, r1}",
                                  "tex.grad.2d.v4.f32.f32" + kValues + kPlace + ", {f4, f5}",
                                  "tex.grad.2d.v4.f32.f32" + kValues + kPlace + ", {f4}, {f5}",
                                  "tex.cube.v4.f32.f32" + kValues + kPlace,
                                  "tex.a2d.v4.f32.f32" + kValues + ", [h, {r0, f4}]"};
  for (const std::string &instruction : kRefused) {
    CAPTURE(instruction);
    CHECK(error(instruction).find("PTX line 6: tex.") != std::string::npos);
  }
}

TEST_CASE("braces are scopes for registers and labels") {
  CHECK(kernel_error(".entry k() {\n"
                     "  .reg .b32 %r<2>;\n"
                     "  { .reg.b16 h; mov.b16 h, 1; }\n"
                     "  { .reg .b64 %r; mov.u64 %r, 1; L: mov.u64 %r, 2; bra L; }\n"
                     "  { L: mov.u32 %r1, 2; bra L; }\n"
                     "}\n") == "");
}

}  // namespace ckpt::softcuda
