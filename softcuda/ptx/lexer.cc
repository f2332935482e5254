// SPDX-License-Identifier: Apache-2.0
#include "softcuda/ptx/lexer.h"

#include <algorithm>

namespace ckpt::softcuda::ptx {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_word(char c) {
  return is_digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' ||
         c == '%' || c == '.';
}

}  // namespace

void Lexer::skip_space() {
  while (at_ < text_.size()) {
    std::string_view rest = text_.substr(at_);
    if (rest[0] == '\n') ++line_;
    if (rest[0] == ' ' || rest[0] == '\t' || rest[0] == '\n' || rest[0] == '\r') {
      ++at_;
    } else if (rest.starts_with("//")) {
      at_ += std::min(rest.find('\n'), rest.size());
    } else if (rest.starts_with("/*")) {
      size_t end = rest.find("*/", 2);
      size_t n = end == rest.npos ? rest.size() : end + 2;
      line_ +=
          static_cast<u32>(std::count(rest.begin(), rest.begin() + static_cast<long>(n), '\n'));
      at_ += n;
    } else {
      return;
    }
  }
}

Token Lexer::take(TokenKind kind, size_t length) {
  Token t{kind, text_.substr(at_, length), line_};
  at_ += length;
  return t;
}

// "::" is part of a word only if the word continues after it: ".L1::no_allocate", but not "label:".
size_t Lexer::word_length() const {
  size_t n = 0;
  std::string_view rest = text_.substr(at_);
  while (n < rest.size()) {
    if (is_word(rest[n]))
      ++n;
    else if (rest.substr(n).starts_with("::") && n + 2 < rest.size() && is_word(rest[n + 2]))
      n += 2;
    else
      break;
  }
  return n;
}

Token Lexer::next() {
  skip_space();
  if (at_ >= text_.size() || text_[at_] == '\0') return {TokenKind::End, {}, line_};
  char c = text_[at_];
  if (is_digit(c)) return take(TokenKind::Number, word_length());
  if (is_word(c)) return take(TokenKind::Word, word_length());
  if (c == '"') {
    size_t end = text_.find('"', at_ + 1);
    if (end == text_.npos) return take(TokenKind::Bad, text_.size() - at_);
    Token t{TokenKind::String, text_.substr(at_ + 1, end - at_ - 1), line_};
    at_ = end + 1;
    return t;
  }
  constexpr std::string_view kPunct = "()[]{}<>,;:+-*/!@|=~&^?";
  return take(kPunct.find(c) == kPunct.npos ? TokenKind::Bad : TokenKind::Punct, 1);
}

bool Lexer::skip_block() {
  for (size_t depth = 1; depth > 0;) {
    Token t = next();
    if (t.kind == TokenKind::End || t.kind == TokenKind::Bad) return false;
    if (t.is("{")) ++depth;
    if (t.is("}")) --depth;
  }
  return true;
}

}  // namespace ckpt::softcuda::ptx
