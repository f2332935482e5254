// SPDX-License-Identifier: Apache-2.0
//
// PTX text as tokens. A word is an identifier, a register, an opcode with all its modifiers, or a
// directive. Dots are part of words, so "ld.global.v2.u32" and "%tid.x" are one token each.
#pragma once

#include <string_view>

#include "common/base/bytes.h"

namespace ckpt::softcuda::ptx {

enum class TokenKind : u8 { End, Word, Number, Punct, String, Bad };

struct Token {
  TokenKind kind = TokenKind::End;
  std::string_view text;  // a string's text is without quotes
  u32 line = 0;

  bool is(std::string_view t) const { return kind != TokenKind::String && text == t; }
};

class Lexer {
 public:
  // `text` must outlive the lexer and its tokens.
  explicit Lexer(std::string_view text, u32 first_line = 1) : text_(text), line_(first_line) {}

  Token next();
  // The offset after the last token.
  size_t position() const { return at_; }
  u32 line() const { return line_; }
  // After an opening brace: skips its block and the closing brace. False: the closing brace is
  // missing.
  bool skip_block();

 private:
  void skip_space();
  Token take(TokenKind kind, size_t length);
  size_t word_length() const;

  std::string_view text_;
  size_t at_ = 0;
  u32 line_;
};

}  // namespace ckpt::softcuda::ptx
