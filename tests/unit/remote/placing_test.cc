// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include <cstring>

#include "remote/cuda/placing/fixed_text.h"
#include "remote/cuda/placing/fixed_variables.h"
#include "remote/cuda/placing/initial_value.h"
#include "tests/unit/fatbin/support.h"

using namespace ckpt;
using namespace ckpt::remote::cuda;
using fatbin::test::contains;
using fatbin::test::must;

namespace {

const std::string kHeader = ".version 8.3\n.target sm_80\n.address_size 64\n";
constexpr u64 kBase = 0x7f0000000000;

Bytes value_of(const std::string &declaration, const AddressOf &address_of = {}) {
  std::string text = kHeader + declaration;
  ModuleText m = must(read_module(text));
  REQUIRE(m.variables.size() == 1);
  return must(initial_value(m.variables[0], address_of));
}

template <class T>
T as(const Bytes &bytes) {
  T value{};
  REQUIRE(bytes.size() == sizeof value);
  std::memcpy(&value, bytes.data(), sizeof value);
  return value;
}

// The text with all its variables at kBase and behind.
std::string placed(const std::string &text) {
  fatbin::Image image = must(fatbin::Image::in_memory(text.c_str()));
  FixedVariables variables = must(FixedVariables::find(image));
  FixedCode code = must(variables.at(kBase));
  REQUIRE(code.parts.size() == 1);
  return std::string(ckpt::text(code.parts[0]));
}

std::string why_not(const std::string &text) {
  fatbin::Image image = must(fatbin::Image::in_memory(text.c_str()));
  Result<FixedVariables> variables = FixedVariables::find(image);
  if (!variables) return variables.error().what;
  Result<FixedCode> code = variables->at(kBase);
  return code ? "" : code.error().what;
}

}  // namespace

TEST_CASE("declarations of variables are read with their sizes") {
  std::string text = kHeader +
                     ".visible .global .align 4 .u32 one;\n"
                     ".global .align 16 .b8 two[3][5];\n"
                     ".const .f64 three = 0d3FF0000000000000;\n"
                     ".extern .global .u64 four[];\n"
                     ".weak .global .align 8 .v2 .f32 five[4];\n"
                     ".global .align 1 .b8 six[] = {1, 2, 3};\n"
                     ".visible .global .attribute(.managed) .u32 seven;\n"
                     ".global .texref eight;\n"
                     ".func (.param .b32 r) f(.param .b64 p) { .reg .b64 %rd<2>; ret; }\n";
  ModuleText m = must(read_module(text));
  REQUIRE(m.variables.size() == 8);
  CHECK(m.variables[0].bytes == 4);
  CHECK(!m.variables[0].hidden);
  CHECK(m.variables[1].bytes == 15);
  CHECK(m.variables[1].alignment == 16);
  CHECK(m.variables[1].hidden);
  CHECK(m.variables[2].constant);
  CHECK(m.variables[2].alignment == 8);
  CHECK(m.variables[3].imported);
  CHECK(m.variables[4].bytes == 32);
  CHECK(m.variables[5].bytes == 3);
  CHECK(m.variables[6].managed);
  CHECK(m.variables[7].reference);
  CHECK(m.bodies.size() == 1);
  CHECK(m.taken_function.empty());
}

TEST_CASE("initial values are bytes in the order of the device") {
  CHECK(as<u32>(value_of(".global .u32 x = 0x11223344;")) == 0x11223344);
  CHECK(as<i32>(value_of(".global .s32 x = -2;")) == -2);
  CHECK(as<u8>(value_of(".global .b8 x = 017;")) == 15);
  CHECK(as<float>(value_of(".global .f32 x = 0f3FC00000;")) == 1.5f);
  CHECK(as<double>(value_of(".global .f64 x = 0dBFF8000000000000;")) == -1.5);
  CHECK(value_of(".global .b8 x[4] = {1, 255, 2U};") ==
        Bytes{std::byte{1}, std::byte{255}, std::byte{2}});
  CHECK(value_of(".global .u32 x[100];").empty());
  AddressOf y = [](std::string_view name) {
    return name == "y" ? std::optional(kBase) : std::nullopt;
  };
  CHECK(as<u64>(value_of(".global .u64 x = y;", y)) == kBase);
  CHECK(as<u64>(value_of(".global .u64 x = generic(y)+8;", y)) == kBase + 8);
  CHECK(as<u64>(value_of(".global .b64 x = {generic(y+16)};", y)) == kBase + 16);
  // The bytes of an address, as the compiler writes them in a structure.
  CHECK(as<u64>(value_of(".global .b8 x[8] = {0xFF(generic(y)), 0xFF00(generic(y)), "
                         "0xFF0000(generic(y)), 0xFF000000(generic(y)), 0xFF00000000(generic(y)), "
                         "0xFF0000000000(generic(y)), 0xFF000000000000(generic(y)), "
                         "0xFF00000000000000(generic(y))};",
                         y)) == kBase);
  for (const char *wrong : {"1.5", "{1, 2", "(1", "{{1}, {2}}", "f(", "1 2", "0x", "generic"}) {
    std::string text = kHeader + ".global .u32 x[4] = " + wrong + ";";
    ModuleText m = must(read_module(text));
    CHECK(!initial_value(m.variables.at(0), y));
  }
}

TEST_CASE("instructions name addresses instead of variables") {
  std::string out = placed(kHeader +
                           ".visible .global .align 4 .u32 sum;\n"
                           ".const .align 4 .f32 table[4];\n"
                           ".visible .entry k(.param .u64 p)\n{\n\t.reg .b64 %rd<4>;\n"
                           "\tmov.u64 %rd1, sum;\n"
                           "$L_1:\n\t@%p1 st.global.u32 [sum+4], %r1;\n"
                           "\t.loc 1 2 3\n"
                           "\tld.const.v2.f32 {%f1, %f2}, [table];\n"
                           "\tld.const.f32 %f3, [%rd1];\n"
                           "\tcvta.const.u64 %rd2, %rd1;\n"
                           "\tld.param.u64 %rd3, [p];\n"
                           "\tret;\n}\n");
  auto at = [](u64 offset) { return std::to_string(kBase + offset); };
  CHECK(!contains(out, ".u32 sum"));
  CHECK(!contains(out, "table"));
  CHECK(contains(out, "\n{\n\t.reg .b64 %ckpt_place<1>;"));
  CHECK(contains(out, "mov.u64 %rd1, " + at(0) + ";"));
  CHECK(contains(out, "$L_1:\n\tmov.u64 %ckpt_place0, " + at(0) +
                          ";\n\t@%p1 st.global.u32 [%ckpt_place0+4], %r1;"));
  CHECK(contains(out, "mov.u64 %ckpt_place0, " + at(16) +
                          ";\n\tld.global.nc.v2.f32 {%f1, %f2}, [%ckpt_place0];"));
  CHECK(contains(out, "ld.global.nc.f32 %f3, [%rd1];"));
  CHECK(contains(out, "cvta.global.u64 %rd2, %rd1;"));
  CHECK(contains(out, "ld.param.u64 %rd3, [p];"));
}

TEST_CASE("variables with addresses that a driver chooses stay with it") {
  std::string text = kHeader +
                     ".global .u32 plain;\n"
                     ".global .u64 pointer = plain;\n"
                     ".global .align 1 .b8 $str[3] = {97, 98, 0};\n"
                     ".global .u64 message = generic($str);\n"
                     ".global .u64 to_message = message;\n"
                     ".func f() { ret; }\n"
                     ".global .u64 calls[1] = {f};\n"
                     ".visible .entry k() { .reg .b64 %rd<2>; mov.u64 %rd1, pointer; ret; }\n";
  fatbin::Image image = must(fatbin::Image::in_memory(text.c_str()));
  FixedVariables variables = must(FixedVariables::find(image));
  std::vector<std::string> names;
  for (const auto &[name, place] : variables.places()) names.push_back(name);
  CHECK(names == std::vector<std::string>{"plain", "pointer"});
  FixedCode code = must(variables.at(kBase));
  CHECK(contains(std::string(ckpt::text(code.parts[0])), "calls[1] = {f};"));
  CHECK(variables.taken_function().empty());
}

TEST_CASE("a constant that stays keeps all constants where they are") {
  std::string out = placed(kHeader +
                           ".func f() { ret; }\n"
                           ".const .u64 calls[1] = {f};\n"
                           ".const .u32 x = 1;\n"
                           ".global .u32 y;\n"
                           ".visible .entry k() { .reg .b32 %r<2>; ld.const.u32 %r1, [x]; "
                           "st.global.u32 [y], %r1; ret; }\n");
  CHECK(contains(out, "ld.const.u32 %r1, [x];"));
  CHECK(contains(out, ".const .u32 x = 1;"));
  CHECK(!contains(out, "[y]"));
}

TEST_CASE("what is not understood is an error") {
  CHECK(contains(why_not(kHeader + ".global .u32 a, b;\n"), "several"));
  CHECK(contains(why_not(kHeader + ".global .u32 x;\n.visible .entry k() { .reg .b32 x; ret; }\n"),
                 "another x"));
  CHECK(contains(why_not(kHeader + ".global .u32 x;\n.section .debug_info { .b64 x }\n"),
                 "debuggers"));
  CHECK(contains(
      why_not(kHeader + ".const .u32 x;\n.visible .entry k() { isspacep.const %p1, %rd1; ret; }\n"),
      "isspacep.const"));
  CHECK(contains(why_not(kHeader + ".global .u32 x;\n.visible .entry ckpt_place() { ret; }\n"),
                 "reserved"));
}

TEST_CASE("a function is found if a kernel takes its address") {
  std::string text = kHeader +
                     ".func f() { ret; }\n.global .u32 x;\n"
                     ".visible .entry k() { .reg .b64 %rd<2>; mov.u64 %rd1, f; ret; }\n";
  fatbin::Image image = must(fatbin::Image::in_memory(text.c_str()));
  CHECK(must(FixedVariables::find(image)).taken_function() == "f");
}
