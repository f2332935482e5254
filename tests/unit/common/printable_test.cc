// SPDX-License-Identifier: Apache-2.0
#include "common/base/printable.h"

#include <doctest/doctest.h>

#include "common/base/log.h"
#include "common/base/print.h"

using namespace ckpt;

TEST_CASE("what a terminal would interpret is escaped") {
  CHECK(printable("a\x1b[2Jb") == "a\\x1b[2Jb");
  CHECK(printable("a\nckpt-dump: error\r\t\x7f") == "a\\x0ackpt-dump: error\\x0d\\x09\\x7f");
  CHECK(printable("\xc2\x9b"
                  "31m") == "\\xc2\\x9b31m");             // CSI in one code point
  CHECK(printable("\xe2\x80\xae") == "\\xe2\\x80\\xae");  // from right to left
  CHECK(printable("\xff\xc3") == "\\xff\\xc3");           // not UTF-8
  CHECK(printable("na\xc3\xafve \xe2\x82\xac") == "na\xc3\xafve \xe2\x82\xac");
}

TEST_CASE("a long text is cut between two characters") {
  CHECK(printable("abcdef", 3) == "abc...");
  CHECK(printable("ab\xe2\x82\xac", 4) == "ab...");
  CHECK(printable("abc", 3) == "abc");
}

TEST_CASE("of line feeds only those before an item of a list are kept") {
  CHECK(printable_lines("a:\n  - b\x1b[m\n  - c") == "a:\n  - b\\x1b[m\n  - c");
  CHECK(printable_lines("a\nckptd: all is well") == "a\\x0ackptd: all is well");
}

TEST_CASE("a part of a file's name leads nowhere else") {
  CHECK(name_part("python3.11") == "python3.11");
  CHECK(name_part("x/../../pwn") == "x_.._.._pwn");
  CHECK(name_part("..") == "_..");
  CHECK(name_part("") == "_");
  CHECK(name_part("a\x1b[2J \xc3\xa4") == "a__2J___");
  CHECK(name_part(std::string(300, 'a')).size() == 64);
}

TEST_CASE(
    "a text of several lines keeps its line feeds, and nothing else that controls a terminal") {
  CHECK(printable_text("a\nb\x1b[m\n\nc\r\n") == "a\nb\\x1b[m\n\nc\\x0d\n");
  CHECK(printable_text("") == "");
}

TEST_CASE("each string that is printed is made printable, our own text is not") {
  FILE *out = std::tmpfile();
  REQUIRE(out);
  std::string name = "evil\x1b]0;x\x07\nckpt-run: error: forged";
  print_to(out, "{:<4}{}\n{:.1f} {}\n", "ab", name, 1.25, std::string_view("\x9b"));
  std::rewind(out);
  char room[256];
  size_t n = std::fread(room, 1, sizeof room, out);
  std::fclose(out);
  CHECK(std::string(room, n) == "ab  evil\\x1b]0;x\\x07\\x0ackpt-run: error: forged\n1.2 \\x9b\n");
}
