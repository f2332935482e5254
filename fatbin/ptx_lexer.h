// SPDX-License-Identifier: Apache-2.0
//
// Splits PTX into tokens (PTX ISA 9.0, chapter 4), as far as finding declarations needs it.
// Comments and strings are skipped.
#pragma once

#include <string_view>

namespace ckpt::fatbin {

struct Token {
  enum Kind : char { End, Word, Mark };
  Kind kind = End;
  std::string_view text;

  bool is(char mark) const { return kind == Mark && text[0] == mark; }
  bool is(std::string_view word) const { return kind == Word && text == word; }
};

class PtxLexer {
 public:
  explicit PtxLexer(std::string_view text) : rest_(text) {}

  // A word is a directive, an instruction, a name, a register or a number. Any other character is a
  // mark.
  Token next();
  // The rest of the line, without a comment.
  std::string_view line();

 private:
  void skip_blank();
  void skip_to(std::string_view end);
  void skip_enclosed(std::string_view begin, std::string_view end);

  std::string_view rest_;
};

}  // namespace ckpt::fatbin
