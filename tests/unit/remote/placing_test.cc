// SPDX-License-Identifier: Apache-2.0
#include <doctest/doctest.h>

#include "remote/cuda/placing/fixed_text.h"
#include "remote/cuda/placing/fixed_variables.h"
#include "tests/unit/fatbin/support.h"
#include "tests/unit/ptx/declarations.h"

using namespace ckpt;
using namespace ckpt::remote::cuda;
using fatbin::test::contains;
using fatbin::test::must;

namespace {

const std::string kHeader = ".version 8.3\n.target sm_80\n.address_size 64\n";
constexpr u64 kBase = 0x7f0000000000;
constexpr HandleRange kHandles{0x7e0000000000, 64u << 20};

std::string hexadecimal(ByteView bytes) {
  std::string out;
  for (std::byte b : bytes) out += fmt::format("{:02x}", static_cast<unsigned>(b));
  return out;
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

TEST_CASE("declarations mean what ptx/ says") {
  for (const ptx::test::DeclaredBytes &d : ptx::test::kDeclarations) {
    CAPTURE(d.text);
    std::string text = ptx::test::module_with(d.text);
    fatbin::Image image = must(fatbin::Image::in_memory(text.c_str()));
    Result<FixedVariables> variables = FixedVariables::find(image);
    REQUIRE(variables.has_value() == (d.bytes != 0));
    if (!variables) continue;
    FixedVariables::Place x = variables->places().at("x"), y = variables->places().at("y");
    CHECK(x.bytes == d.bytes);
    CHECK(x.offset % d.align == 0);
    FixedCode code = must(variables->at(ptx::test::kAddress - y.offset, {}));
    for (const auto &[offset, bytes] : code.initial)
      if (offset == x.offset) CHECK(hexadecimal(bytes) == d.initial);
    CHECK(!contains(std::string(ckpt::text(code.parts[0])), " x"));
  }
}

TEST_CASE("of a declaration with several variables, those stay that are not placed") {
  std::string out = placed(kHeader +
                           ".func f() { ret; }\n"
                           ".visible .global .align 8 .u64 a[2] = {1, 2}, b = f, c, d[1] = {f};\n"
                           ".global .u32 e, g;\n");
  CHECK(contains(out, ".visible .global .align 8 .u64 b = f, d[1] = {f};\n"));
  CHECK(!contains(out, ".u32"));
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
  CHECK(contains(why_not(kHeader + ".global .u32 x<4>;\n"), "rows of variables"));
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
