// SPDX-License-Identifier: Apache-2.0
//
// PTX text as tokens (PTX ISA 9.0, chapter 4). A word is an identifier, a register, a directive, or
// an opcode with all its modifiers: dots are part of words, so "ld.global.v2.u32" and "%tid.x" are
// one token each.
#pragma once

#include <string_view>

#include "common/base/bytes.h"

namespace ckpt::ptx {

enum class TokenKind : u8 { End, Word, Number, Mark, String };

struct Token {
  TokenKind kind = TokenKind::End;
  std::string_view text;  // a string's text is without quotes
  u32 line = 0;

  bool is(char mark) const { return kind == TokenKind::Mark && text[0] == mark; }
  bool is(std::string_view word) const { return kind == TokenKind::Word && text == word; }
  bool is_word() const { return kind == TokenKind::Word; }
  bool is_directive() const { return is_word() && text[0] == '.'; }
  bool is_end() const { return kind == TokenKind::End; }
};

class Lexer {
 public:
  // `text` must outlive the lexer and its tokens.
  explicit Lexer(std::string_view text, u32 first_line = 1)
      : at_(text.data()), end_(text.data() + text.size()), line_(first_line) {}

  Token next();
  // Behind the last token.
  const char *position() const { return at_; }
  // After an opening brace: skips its block and the closing brace, in a fraction of the time that
  // its tokens take. False: the closing brace is missing.
  bool skip_block();
  // The rest of the line: no ';' ends the directives .loc and .file.
  void skip_line();

 private:
  bool at_comment() const;
  void skip_comment();
  Token take(TokenKind kind, const char *end);
  Token string();

  const char *at_;
  const char *end_;
  u32 line_;
};

// Where a part of the text begins.
inline size_t offset_in(std::string_view text, std::string_view part) {
  return static_cast<size_t>(part.data() - text.data());
}

}  // namespace ckpt::ptx
