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
constexpr HandleRange kHandles{0x7e0000000000, 64u << 20};

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
  FixedCode code = must(variables.at(kBase, kHandles));
  REQUIRE(code.parts.size() == 1);
  return std::string(ckpt::text(code.parts[0]));
}

std::string why_not(const std::string &text) {
  fatbin::Image image = must(fatbin::Image::in_memory(text.c_str()));
  Result<FixedVariables> variables = FixedVariables::find(image);
  if (!variables) return variables.error().what;
  Result<FixedCode> code = variables->at(kBase, kHandles);
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

TEST_CASE("a declaration without an end is an error") {
  for (const char *cut :
       {".global .u32 x", ".global .u32 x = 1", ".global .u32 x[] = {1, 2", ".global"})
    CHECK(!read_module(std::string(kHeader) + cut));
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
  FixedCode code = must(variables.at(kBase, {}));
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

namespace {

// A kernel with these instructions, rewritten; without what stands around them.
std::string looked_up(const std::string &instructions, const std::string &more = "") {
  std::string begin = kHeader + more + ".visible .entry k()\n{";
  std::string out = placed(begin + "\n" + instructions + "\n}\n");
  REQUIRE(out.starts_with(begin));
  return out.substr(begin.size(), out.size() - begin.size() - 3);
}

const std::string kRegisters =
    "\n\t.reg .b64 %ckpt_place_h, %ckpt_place_o;\n\t.reg .pred %ckpt_place_q;\n";

// What stands in front of an instruction whose handle is in %rd1.
std::string loads(const std::string &check) {
  return "sub.u64 %ckpt_place_o, %rd1, 138538465099776;\n\t" + check +
         ";\n\tmov.b64 %ckpt_place_h, %rd1;\n"
         "\t@%ckpt_place_q ld.global.u64 %ckpt_place_h, [%rd1];\n\t";
}

}  // namespace

TEST_CASE("each instruction with a handle looks it up first") {
  for (std::string_view instruction : {
           "tex.1d.v4.s32.s32 {%r1, %r2, %r3, %r4}, [@, {%r5}];",
           "tex.1d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [@, %f5];",
           "tex.a2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [@, {%r1, %f5, %f6, %f6}];",
           "tex.grad.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [@, {%f5, %f6}], {%f1, %f2}, {%f3, %f4};",
           "tex.level.cube.v4.f32.f32 {%f1, %f2, %f3, %f4}|%p2, [@, {%f5, %f6, %f1, %f1}], %f2;",
           "tld4.r.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [ @ , {%f5, %f6}];",
           "txq.width.b32 %r1, [@];",
           "suld.b.2d.v2.b32.trap {%r1, %r2}, [@, {%r3, %r4}];",
           "sust.b.3d.b32.zero [@, {%r1, %r2, %r3, %r3}], {%r4};",
           "sust.p.2d.v4.b32.trap [@, {%r1, %r2}], {%r1, %r2, %r3, %r4};",
           "sured.b.add.2d.u32.trap [@, {%r1, %r2}], %r3;",
           "suq.height.b32 %r1, [@];",
       }) {
    auto with = [&](std::string_view handle) {
      std::string out(instruction);
      return out.replace(out.find('@'), 1, handle);
    };
    CAPTURE(with("%rd1"));
    CHECK(looked_up(with("%rd1")) ==
          kRegisters + loads("setp.lt.u64 %ckpt_place_q, %ckpt_place_o, 67108864") +
              with("%ckpt_place_h"));
    for (std::string guard : {"%p1", "!%p1"}) {
      std::string check = "setp.lt.and.u64 %ckpt_place_q, %ckpt_place_o, 67108864, " + guard;
      for (std::string space : {"", " "})
        CHECK(looked_up("@" + space + guard + " " + with("%rd1")) ==
              kRegisters + loads(check) + "@" + space + guard + " " + with("%ckpt_place_h"));
    }
  }
}

TEST_CASE("other instructions are not changed for handles") {
  std::string plain =
      "ld.global.u32 %r1, [%rd1];\n$L_tex:\ntensormap.x [%rd1];\n"
      "// tex.1d.v4.s32.s32 {%r1, %r2, %r3, %r4}, [%rd1, {%r5}];\n"
      "mov.u64 %rd2, %rd1;";
  std::string use = "tex.1d.v4.s32.s32 {%r1, %r2, %r3, %r4}, [named, {%r5}];";
  CHECK(looked_up(plain + use, ".global .texref named;\n") == "\n" + plain + use);
  CHECK(contains(why_not(kHeader + ".entry k() { " + use + " }"), "named, which is no register"));
  CHECK(contains(why_not(kHeader + ".entry k() { istypep.texref %p1, %rd1; }"), "istypep"));
  CHECK(contains(why_not(kHeader + ".entry k() { call f; txq.width.b32 %r1, [%rd1]; strange "
                                   "suq.width.b32 %r1, [%rd1]; }"),
                 "suq.width.b32"));
  std::string samplers = ".version 8.3\n.target sm_80, texmode_independent\n.address_size 64\n";
  CHECK(contains(why_not(samplers + ".entry k() { txq.width.b32 %r1, [%rd1]; }"), "samplers"));
}

TEST_CASE("variables and handles are rewritten in one pass") {
  std::string out = placed(kHeader +
                           ".const .align 8 .u64 handle;\n.visible .entry k()\n{\n"
                           "\tld.const.u64 %rd1, [handle];\n"
                           "\t@%p1 txq.width.b32 %r1, [%rd1];\n}\n");
  CHECK(contains(out, "\n{\n\t.reg .b64 %ckpt_place<1>;" + kRegisters));
  CHECK(contains(out, "ld.global.nc.u64 %rd1, [%ckpt_place0];\n\tsub.u64"));
  CHECK(contains(out, "@%p1 txq.width.b32 %r1, [%ckpt_place_h];"));
}

TEST_CASE("without a range, instructions with handles stay as they are") {
  std::string text = kHeader +
                     ".global .u32 x;\n.entry k() { mov.u64 %rd1, x;\n"
                     "txq.width.b32 %r1, [%rd1]; }\n";
  fatbin::Image image = must(fatbin::Image::in_memory(text.c_str()));
  FixedVariables variables = must(FixedVariables::find(image));
  CHECK(variables.uses_textures());
  CHECK(variables.covers_cubins());
  FixedCode code = must(variables.at(kBase, {}));
  CHECK(contains(std::string(ckpt::text(code.parts[0])), "txq.width.b32 %r1, [%rd1];"));
}

TEST_CASE("a cubin without PTX of its architecture may do what no PTX says") {
  using fatbin::test::EntryMaker;
  auto covered = [&](u32 arch, u64 flags) {
    std::string text = kHeader + ".visible .entry k() { ret; }\n";
    EntryMaker cubin = EntryMaker::raw(fatbin::Kind::Elf, std::string(64, 'x'), arch);
    cubin.record.flags |= flags;
    Bytes bytes = fatbin::test::container({cubin, EntryMaker::raw(fatbin::Kind::Ptx, text, 80)});
    fatbin::Image image = must(fatbin::Image::in_memory(bytes.data()));
    FixedVariables found = must(FixedVariables::find(image));
    CHECK(!found.uses_textures());
    // A cubin that is not covered is left out.
    FixedCode code = must(found.at(0, {}));
    std::string_view part = ckpt::text(code.parts[0]);
    CHECK((part.find("xxxx") != part.npos) == found.covers_cubins());
    return found.covers_cubins();
  };
  CHECK(covered(80, 0));
  CHECK(!covered(90, 0));
  CHECK(!covered(80, fatbin::kFlagArchSpecific));
}
