// SPDX-License-Identifier: Apache-2.0
#include "ptx/lexer.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace ckpt::ptx {
namespace {

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }
constexpr bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || c == '$' || c == '%';
}

constexpr std::array<bool, 256> kInWord = [] {
  std::array<bool, 256> in{};
  for (int c = 0; c < 128; ++c)
    in[c] = is_digit(static_cast<char>(c)) || is_letter(static_cast<char>(c)) || c == '.';
  return in;
}();

bool is_in_word(char c) { return kInWord[static_cast<u8>(c)]; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

// "::" is part of a word only if the word continues after it: ".L1::no_allocate", but not "label:".
const char *word_end(const char *at, const char *end) {
  for (;;) {
    while (at != end && is_in_word(*at)) ++at;
    if (at == end || *at != ':') return at;
    if (end - at < 3 || at[1] != ':' || !is_in_word(at[2])) return at;
    at += 2;
  }
}

// A decimal exponent may have a sign: 1.5E-3, but not 0x1E-3.
const char *number_end(const char *begin, const char *end) {
  const char *at = begin;
  while (at != end && is_in_word(*at)) ++at;
  bool prefixed = at - begin > 1 && begin[0] == '0' && std::strchr("xXbBfFdD", begin[1]) != nullptr;
  bool exponent = !prefixed && (at[-1] == 'e' || at[-1] == 'E') && end - at > 1 &&
                  (at[0] == '+' || at[0] == '-') && is_digit(at[1]);
  if (exponent)
    for (++at; at != end && is_in_word(*at);) ++at;
  return at;
}

// Where skip_block() looks closer. Most of a text is in bodies, so 16 characters are compared at
// once.
using Run = u8 __attribute__((vector_size(16)));

bool ends_run(char c) { return c == '{' || c == '}' || c == '/' || c == '"'; }

const char *end_of_run(const char *at, const char *end) {
  for (; end - at >= static_cast<long>(sizeof(Run)); at += sizeof(Run)) {
    Run c;
    std::memcpy(&c, at, sizeof c);
    auto ends = (c == u8{'{'}) | (c == u8{'}'}) | (c == u8{'/'}) | (c == u8{'"'});
    u64 halves[2];
    std::memcpy(halves, &ends, sizeof halves);
    if ((halves[0] | halves[1]) != 0) break;
  }
  while (at != end && !ends_run(*at)) ++at;
  return at;
}

u32 lines_in(std::string_view text) {
  u32 n = 0;
  while (text.size() >= sizeof(Run)) {
    Run sum{};  // of at most 255 runs
    for (int i = 0; i < 255 && text.size() >= sizeof(Run); ++i, text.remove_prefix(sizeof(Run))) {
      Run c;
      std::memcpy(&c, text.data(), sizeof c);
      sum -= static_cast<Run>(c == u8{'\n'});
    }
    for (size_t i = 0; i < sizeof(Run); ++i) n += sum[i];
  }
  return n + static_cast<u32>(std::ranges::count(text, '\n'));
}

}  // namespace

bool Lexer::at_comment() const {
  return end_ - at_ > 1 && at_[0] == '/' && (at_[1] == '/' || at_[1] == '*');
}

void Lexer::skip_comment() {
  bool line = at_[1] == '/';
  std::string_view rest(at_ + 2, static_cast<size_t>(end_ - at_ - 2));
  size_t n = std::min(rest.find(line ? "\n" : "*/"), rest.size());
  if (!line) {
    line_ += lines_in(rest.substr(0, n));
    n = std::min(n + 2, rest.size());
  }
  at_ = rest.data() + n;
}

Token Lexer::take(TokenKind kind, const char *end) {
  Token t{kind, std::string_view(at_, static_cast<size_t>(end - at_)), line_};
  at_ = end;
  return t;
}

Token Lexer::string() {
  ++at_;
  const void *quote = std::memchr(at_, '"', static_cast<size_t>(end_ - at_));
  const char *end = quote != nullptr ? static_cast<const char *>(quote) : end_;
  Token t = take(TokenKind::String, end);
  line_ += lines_in(t.text);
  if (at_ != end_) ++at_;
  return t;
}

Token Lexer::next() {
  for (;; skip_comment()) {
    for (; at_ != end_ && is_blank(*at_); ++at_) line_ += *at_ == '\n';
    if (!at_comment()) break;
  }
  if (at_ == end_) return take(TokenKind::End, at_);
  char c = *at_;
  if (c == '"') return string();
  if (!is_in_word(c)) return take(TokenKind::Mark, at_ + 1);
  bool number = is_digit(c) || (c == '.' && end_ - at_ > 1 && is_digit(at_[1]));
  return number ? take(TokenKind::Number, number_end(at_, end_))
                : take(TokenKind::Word, word_end(at_, end_));
}

bool Lexer::skip_block() {
  const char *begin = at_;
  u32 line = line_;
  size_t depth = 1;
  while (depth > 0 && (at_ = end_of_run(at_, end_)) != end_) {
    if (*at_ == '"') {
      string();
    } else if (at_comment()) {
      skip_comment();
    } else {
      depth += *at_ == '{';
      depth -= *at_++ == '}';
    }
  }
  line_ = line + lines_in({begin, static_cast<size_t>(at_ - begin)});
  return depth == 0;
}

void Lexer::skip_line() {
  const void *end = std::memchr(at_, '\n', static_cast<size_t>(end_ - at_));
  at_ = end != nullptr ? static_cast<const char *>(end) : end_;
}

}  // namespace ckpt::ptx
