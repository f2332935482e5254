// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/placing/initial_value.h"

#include <bit>
#include <charconv>

#include "fatbin/ptx_lexer.h"

namespace ckpt::remote::cuda {
namespace {

using fatbin::PtxLexer;
using fatbin::Token;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name(const Token &t) {
  return t.kind == Token::Word && !is_digit(t.text[0]) && t.text != "generic";
}

// 17, 0x1F, 0b11, 017, each also with a U (PTX ISA, section 4.5.1).
std::optional<u64> integer(std::string_view word) {
  if (word.ends_with('U')) word.remove_suffix(1);
  int base = 10;
  if (word.size() > 1 && word[0] == '0') {
    char c = word[1];
    base = c == 'x' || c == 'X' ? 16 : c == 'b' || c == 'B' ? 2 : 8;
    word.remove_prefix(base == 8 ? 1 : 2);
  }
  u64 value = 0;
  auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value, base);
  bool whole = error == std::errc{} && end == word.data() + word.size() && !word.empty();
  return whole ? std::optional(value) : std::nullopt;
}

// 0f3F800000 is a float, 0d3FF0000000000000 a double (PTX ISA, section 4.5.2).
std::optional<u64> floating(std::string_view word, u32 bytes) {
  if (word.size() < 3 || word[0] != '0') return {};
  char form = static_cast<char>(word[1] | 0x20);
  std::optional<u64> bits = integer("0x" + std::string(word.substr(2)));
  if (!bits || (form != 'f' && form != 'd')) return {};
  if (form == 'f' && bytes == 8)
    return std::bit_cast<u64>(double{std::bit_cast<float>(static_cast<u32>(*bits))});
  if (form == 'd' && bytes == 4)
    return std::bit_cast<u32>(static_cast<float>(std::bit_cast<double>(*bits)));
  if ((form == 'f' && bytes == 4) || (form == 'd' && bytes == 8)) return bits;
  return {};
}

class Parser {
 public:
  Parser(const DeclaredVariable &v, const AddressOf &address_of)
      : v_(v), address_of_(address_of), lexer_(v.initial) {
    advance();
  }

  Result<Bytes> parse() {
    if (v_.element_bytes > sizeof(u64)) return fail("{} has values of 128 bits", v_.name);
    bool list = token_.is('{');
    if (list) advance();
    for (;;) {
      CKPT_CHECK(element());
      if (!list || !token_.is(',')) break;
      advance();
    }
    if (list && !take('}')) return unclear();
    if (token_.kind != Token::End || out_.size() > v_.bytes) return unclear();
    return std::move(out_);
  }

 private:
  Failure unclear() const { return fail("the initial value of {} cannot be read", v_.name); }
  void advance() { token_ = lexer_.next(); }
  bool take(char mark) {
    bool found = token_.is(mark);
    if (found) advance();
    return found;
  }

  Result<> element() {
    CKPT_TRY(u64 value, v_.floating ? floating_value() : sum());
    for (u32 i = 0; i < v_.element_bytes; i++)
      out_.push_back(static_cast<std::byte>(value >> 8 * i));
    return {};
  }

  Result<u64> floating_value() {
    bool negative = take('-');
    std::optional<u64> bits = floating(token_.text, v_.element_bytes);
    if (!bits || negative) return unclear();
    advance();
    return *bits;
  }

  // Addresses and integers with + and - between them.
  Result<u64> sum() {
    bool minus = take('-');
    CKPT_TRY(u64 value, operand());
    if (minus) value = -value;
    while (token_.is('+') || token_.is('-')) {
      minus = token_.is('-');
      advance();
      CKPT_TRY(u64 next, operand());
      value += minus ? -next : next;
    }
    return value;
  }

  // A name, generic(name + offset), an integer, (sum), or mask(address): 0xFF00(generic(name)) is
  // the second byte of the address.
  Result<u64> operand() {
    if (take('(')) return in_parentheses();
    if (token_.kind != Token::Word) return unclear();
    std::string_view word = token_.text;
    bool name = is_name(token_);
    advance();
    if (word == "generic") return take('(') ? in_parentheses() : unclear();
    if (name) {
      std::optional<u64> address = address_of_(word);
      if (!address) return fail("{} has the address of {}", v_.name, word);
      return *address;
    }
    std::optional<u64> value = integer(word);
    if (!value) return unclear();
    if (!take('(')) return *value;
    CKPT_TRY(u64 address, in_parentheses());
    return *value == 0 ? 0 : (address & *value) >> std::countr_zero(*value);
  }

  // The '(' has been read.
  Result<u64> in_parentheses() {
    if (++depth_ > 16) return unclear();
    CKPT_TRY(u64 value, sum());
    --depth_;
    if (!take(')')) return unclear();
    return value;
  }

  const DeclaredVariable &v_;
  const AddressOf &address_of_;
  PtxLexer lexer_;
  Token token_;
  Bytes out_;
  int depth_ = 0;
};

}  // namespace

std::vector<std::string_view> names_in(std::string_view initial) {
  std::vector<std::string_view> names;
  PtxLexer lexer(initial);
  for (Token t = lexer.next(); t.kind != Token::End; t = lexer.next())
    if (is_name(t)) names.push_back(t.text);
  return names;
}

Result<Bytes> initial_value(const DeclaredVariable &v, const AddressOf &address_of) {
  if (v.initial.empty()) return Bytes{};
  return Parser(v, address_of).parse();
}

}  // namespace ckpt::remote::cuda
