// SPDX-License-Identifier: Apache-2.0
#include "common/base/copy_facts.h"

#include <doctest/doctest.h>

namespace ckpt::test {

TEST_CASE("the facts of a copy are read as they were written") {
  CopyFacts facts{3, 4, 2, {{"NAME", "a = b"}, {"EMPTY", ""}}};
  std::optional<CopyFacts> read = CopyFacts::parse(facts.text());
  REQUIRE(read);
  CHECK(read->number == 3);
  CHECK(read->copies == 4);
  CHECK(read->generation == 2);
  CHECK(read->settings == facts.settings);
}

TEST_CASE("what is not the facts of a copy gives none") {
  for (const char *text : {"", "number 0\n", "number 1", "number x\n", "number 1\nset a\n",
                           "number 1\nother 2\n", "number 99999999999\n"})
    CHECK_FALSE(CopyFacts::parse(text));
}

TEST_CASE("a setting is a name and a value in one line") {
  CHECK(parse_setting("A_1=x=y")->second == "x=y");
  CHECK(parse_setting("A=")->second.empty());
  for (std::string_view text : {"", "A", "=x", "A B=x", "A=x\ny", "\xc3\xa4=x"})
    CHECK_FALSE(parse_setting(text));
  CHECK_FALSE(parse_setting(std::string_view("A=x\0y", 5)));
}

}  // namespace ckpt::test
