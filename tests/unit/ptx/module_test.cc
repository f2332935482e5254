// SPDX-License-Identifier: Apache-2.0
#include "ptx/module.h"

#include <doctest/doctest.h>

#include "ptx/lexer.h"

using namespace ckpt;
using namespace ckpt::ptx;

namespace {

const std::string kHead = ".version 8.3\n.target sm_90a, debug\n.address_size 64\n";

Module module(const std::string &text) {
  Result<Module> m = read_module(text);
  REQUIRE_MESSAGE(m, (m ? "" : m.error().what));
  return std::move(*m);
}

std::vector<std::string> tokens(std::string_view text) {
  std::vector<std::string> all;
  Lexer lexer(text);
  for (Token t = lexer.next(); !t.is_end(); t = lexer.next()) all.emplace_back(t.text);
  return all;
}

}  // namespace

TEST_CASE("text is split into words, numbers, marks and strings") {
  using Texts = std::vector<std::string>;
  CHECK(tokens("@!%p1 ld.global.L1::no_allocate.u32 %r1, [%rd1+-8];") ==
        Texts{"@", "!", "%p1", "ld.global.L1::no_allocate.u32", "%r1", ",", "[", "%rd1", "+", "-",
              "8", "]", ";"});
  CHECK(tokens("label: a::b c: :d") == Texts{"label", ":", "a::b", "c", ":", ":", "d"});
  CHECK(tokens("1.5E-3 0x1E-3 .5e+2 1e5-2 0f3F800000+1") ==
        Texts{"1.5E-3", "0x1E", "-", "3", ".5e+2", "1e5", "-", "2", "0f3F800000", "+", "1"});
  CHECK(tokens("a/*b*/c//d\ne \"f;\" g/h /* i") == Texts{"a", "c", "e", "f;", "g", "/", "h"});
  CHECK(tokens("a\n\"b") == Texts{"a", "b"});
}

TEST_CASE("tokens know their lines, and blocks are skipped with their comments and strings") {
  Lexer lexer("a /* \n\n */ b \"\n\" c {\n } // }\n { } /* } \n*/ \" } \" / } d\ne");
  CHECK(lexer.next().line == 1);
  CHECK(lexer.next().line == 3);
  CHECK(lexer.next().line == 3);
  CHECK(lexer.next().line == 4);
  CHECK(lexer.next().is('{'));
  CHECK(lexer.skip_block());
  lexer = Lexer("{ /* } \n*/ \" } \n\" / { } // }\n } d\ne");
  CHECK(lexer.next().is('{'));
  CHECK(lexer.skip_block());
  Token d = lexer.next();
  CHECK(d.is("d"));
  CHECK(d.line == 4);
  CHECK(lexer.next().line == 5);
  CHECK_FALSE(lexer.skip_block());
}

TEST_CASE("a module has variables, functions, sections and aliases") {
  std::string text = kHead +
                     ".file 1 \"a;{.cu\", 12, 34\n.pragma \"nounroll\";\n"
                     ".visible .global .align 8 .b8 table[3][4]; // another\n"
                     ".extern .func (.param .b32 r) vprintf(.param .b64 a)\n;\n"
                     ".visible .entry k(.param .u64 p)\n.maxntid 64, 2, 1\n.reqnctapercluster 2\n"
                     "{ .reg .b32 %r<3>; // }\n { ret; } }\n"
                     ".func .attribute(.unified(1, 2)) (.reg .b32 r) f { ret; }\n"
                     ".weak .entry none .reqntid 0x20 { ret; }\n"
                     ".alias g, f;\n.section .debug_info\n{\n.b32 9 // .entry no() {\n.b8 4\n}\n";
  Module m = module(text);
  CHECK(m.problem == "");
  CHECK(m.version == "8.3");
  CHECK(m.versions == 1);
  CHECK(m.target == "sm_90a");
  CHECK_FALSE(m.own_samplers);
  CHECK(text.substr(m.first, 7) == ".file 1");
  REQUIRE(m.variables.size() == 1);
  CHECK_FALSE(m.variables[0].hidden);
  CHECK(m.variables[0].line == 6);
  REQUIRE(m.functions.size() == 4);
  const Function &printf = m.functions[0], &k = m.functions[1], &f = m.functions[2];
  CHECK(printf.external);
  CHECK_FALSE(printf.defined);
  CHECK(k.entry);
  CHECK(text.substr(k.begin, 17) == ".visible .entry k");
  CHECK(text[k.params_end] == ')');
  CHECK(k.body == " .reg .b32 %r<3>; // }\n { ret; } ");
  CHECK(k.body_line == 12);
  CHECK(k.max_threads == 128);
  CHECK(k.cluster[0] == 2);
  CHECK(k.for_clusters);
  CHECK(f.results.size() == 1);
  CHECK(f.params_end == 0);
  CHECK(m.functions[3].required_threads[0] == 32);
  CHECK(m.sections.size() == 1);
  CHECK(m.aliases.at(0) == std::pair<std::string_view, std::string_view>("g", "f"));
}

TEST_CASE("a directive of a later version hides no other one") {
  std::string text = kHead +
                     ".new_directive a { ret; }\n.global .b8x16 v;\n.global .u32 x;\n"
                     ".entry a(.param .b8x16 p) .later 3 { ret; }\n"
                     ".entry b(.param .u32 p) .later 3 { ret; }\n";
  Module m = module(text);
  CHECK(m.problem == "PTX line 4: the directive .new_directive is not supported");
  REQUIRE(m.variables.size() == 1);
  REQUIRE(m.functions.size() == 2);
  CHECK(m.functions[0].unclear);
  CHECK_FALSE(m.functions[1].unclear);
}

TEST_CASE("what is cut off or malformed is a problem, and its end is found") {
  std::string whole = kHead +
                      ".global .b8 x[4] = {1};\n.visible .entry k(.param .u64 p) { { ret; } }\n"
                      ".section .s { \"}\" }\n.alias a, b;\n";
  CHECK(module(whole).problem == "");
  for (size_t n = 0; n < whole.size(); ++n) (void)read_module(std::string_view(whole).substr(0, n));
  std::string open = kHead + ".entry k() { ret;";
  Module m = module(open);
  CHECK(m.problem.find("the '}' of k is missing") != std::string::npos);
  CHECK(m.functions.at(0).unclear);
  std::string junk = kHead + "} ) ] ; , .entry";
  CHECK(module(junk).functions.empty());
  std::string after_nul = kHead;
  after_nul.push_back('\0');
  after_nul += ".global .u32 x;";
  CHECK(module(after_nul).variables.empty());
  CHECK(read_module("").error().what.find(".target") != std::string::npos);
  std::string narrow = ".version 8.0\n.target sm_75\n.address_size 32\n";
  CHECK(module(narrow).problem == "PTX with 32-bit addresses is not supported");
}

TEST_CASE("the number of declarations is limited") {
  std::string many = kHead + ".global .b8 ";
  for (int i = 0; i < 1'100'000; ++i) many += "x,";
  CHECK(read_module(many + "x;").error().what.find("more than") != std::string::npos);
  std::string functions = kHead;
  for (int i = 0; i < 140'000; ++i) functions += ".func f;";
  CHECK(read_module(functions).error().what.find("more than") != std::string::npos);
}
