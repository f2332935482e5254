// SPDX-License-Identifier: Apache-2.0
#include "fatbin/ptx_lexer.h"

#include <algorithm>
#include <array>

#include "common/base/bytes.h"

namespace ckpt::fatbin {
namespace {

constexpr std::array<bool, 256> kInWord = [] {
  std::array<bool, 256> in{};
  for (int c = '0'; c <= '9'; ++c) in[c] = true;
  for (int c = 'a'; c <= 'z'; ++c) in[c] = in[c - 'a' + 'A'] = true;
  for (char c : {'_', '$', '%', '.', '@'}) in[static_cast<u8>(c)] = true;
  return in;
}();

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

}  // namespace

void PtxLexer::skip_to(std::string_view end) {
  size_t at = rest_.find(end);
  rest_.remove_prefix(at == std::string_view::npos ? rest_.size() : at + end.size());
}

void PtxLexer::skip_enclosed(std::string_view begin, std::string_view end) {
  rest_.remove_prefix(begin.size());
  skip_to(end);
}

void PtxLexer::skip_blank() {
  for (;;) {
    size_t n = 0;
    while (n < rest_.size() && is_blank(rest_[n])) ++n;
    rest_.remove_prefix(n);
    if (rest_.starts_with("//"))
      skip_to("\n");
    else if (rest_.starts_with("/*"))
      skip_enclosed("/*", "*/");
    else if (rest_.starts_with('"'))
      skip_enclosed("\"", "\"");
    else
      return;
  }
}

Token PtxLexer::next() {
  skip_blank();
  if (rest_.empty()) return {};
  size_t n = 0;
  while (n < rest_.size() && kInWord[static_cast<u8>(rest_[n])]) ++n;
  Token t{n > 0 ? Token::Word : Token::Mark, rest_.substr(0, std::max<size_t>(n, 1))};
  rest_.remove_prefix(t.text.size());
  return t;
}

std::string_view PtxLexer::line() {
  std::string_view out = rest_.substr(0, rest_.find('\n'));
  rest_.remove_prefix(out.size());
  return out.substr(0, out.find("//"));
}

}  // namespace ckpt::fatbin
