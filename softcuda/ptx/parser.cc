// SPDX-License-Identifier: Apache-2.0
#include "softcuda/ptx/parser.h"

#include <bit>
#include <charconv>
#include <cstdlib>

namespace ckpt::softcuda::ptx {
namespace {

// An integer literal: decimal, 0x…, 0b… or octal 0…, with an optional U.
bool parse_integer(std::string_view t, u64 &value) {
  if (t.ends_with('U')) t.remove_suffix(1);
  int base = 10;
  if (t.starts_with("0x") || t.starts_with("0X")) {
    base = 16;
    t.remove_prefix(2);
  } else if (t.starts_with("0b") || t.starts_with("0B")) {
    base = 2;
    t.remove_prefix(2);
  } else if (t.size() > 1 && t[0] == '0') {
    base = 8;
  }
  auto [end, e] = std::from_chars(t.data(), t.data() + t.size(), value, base);
  return e == std::errc() && end == t.data() + t.size();
}

}  // namespace

Token Parser::advance() {
  Token old = token_;
  token_ = lexer_.next();
  return old;
}

bool Parser::accept(std::string_view text) {
  if (!token_.is(text)) return false;
  advance();
  return true;
}

Result<> Parser::expect(std::string_view text) {
  if (accept(text)) return {};
  return error(fmt::format("'{}' is expected", text));
}

Failure Parser::error(std::string_view why) const {
  if (token_.kind == TokenKind::End) return fail("PTX line {}: {} at the end", token_.line, why);
  return fail("PTX line {}: {} near '{}'", token_.line, why, token_.text.substr(0, 40));
}

Result<Initial> Parser::number() {
  bool negative = false;
  while (token_.is("-") || token_.is("+")) negative ^= advance().is("-");
  if (token_.kind != TokenKind::Number) return error("a number is expected");
  std::string_view t = token_.text;
  Initial v;
  bool single = t.starts_with("0f") || t.starts_with("0F");
  bool dual = t.starts_with("0d") || t.starts_with("0D");
  if (single || dual) {
    std::string_view hex = t.substr(2);
    auto [end, e] = std::from_chars(hex.data(), hex.data() + hex.size(), v.bits, 16);
    if (e != std::errc() || end != hex.data() + hex.size()) return error("a number is invalid");
    v.is_float_literal = single;
    v.is_double_literal = dual;
    if (negative) v.bits ^= single ? 0x80000000ull : 0x8000000000000000ull;
  } else if (parse_integer(t, v.bits)) {
    if (negative) v.bits = 0 - v.bits;
  } else {
    std::string copy(t);
    char *end = nullptr;
    double d = std::strtod(copy.c_str(), &end);
    if (*end != '\0') return error("a number is invalid");
    v.is_double_literal = true;
    v.bits = std::bit_cast<u64>(negative ? -d : d);
  }
  advance();
  return v;
}

Result<u64> Parser::integer() {
  CKPT_TRY(Initial v, number());
  if (v.is_float_literal || v.is_double_literal) return error("an integer is expected");
  return v.bits;
}

Result<Variable> Parser::declaration(Space space) {
  Variable v;
  v.space = space;
  v.line = token_.line;
  u64 lanes = 1;
  bool typed = false;
  for (; token_.kind == TokenKind::Word && token_.text.starts_with('.');) {
    std::string_view word = token_.text;
    advance();
    if (word == ".align") {
      CKPT_TRY(u64 align, integer());
      if (align == 0 || align > 4096 || !std::has_single_bit(align))
        return error("an alignment is invalid");
      v.align = static_cast<u32>(align);
    } else if (word == ".v2" || word == ".v4") {
      lanes = word == ".v2" ? 2 : 4;
    } else if (std::optional<Type> type = type_named(word)) {
      v.type = *type;
      typed = true;
    } else if (word == ".ptr") {
      while (token_.is(".global") || token_.is(".shared") || token_.is(".const") ||
             token_.is(".local"))
        advance();
    } else if (word != ".attribute") {
      return error(fmt::format("'{}' is not a type", word));
    } else {
      CKPT_CHECK(expect("("));
      for (; !token_.is(")") && token_.kind != TokenKind::End; advance())
        v.managed |= token_.is(".managed");
      CKPT_CHECK(expect(")"));
    }
  }
  if (!typed) return error("a type is expected");
  v.bytes = size_of(v.type) * lanes;
  if (v.align < v.bytes && v.bytes <= 16) v.align = static_cast<u32>(v.bytes);
  if (token_.kind != TokenKind::Word) return error("a name is expected");
  v.name = advance().text;
  CKPT_CHECK(array_size(v));
  if (accept("=")) CKPT_CHECK(initialiser(v));
  return v;
}

Result<> Parser::array_size(Variable &v) {
  bool open = false;
  while (accept("[")) {
    if (accept("]")) {
      open = true;
      continue;
    }
    CKPT_TRY(u64 n, integer());
    CKPT_CHECK(expect("]"));
    if (n != 0 && v.bytes > kMaxVariableBytes / n) return error("a variable is too large");
    v.bytes *= n;
  }
  if (open) v.bytes = 0;
  return {};
}

// 0xff(symbol): one byte of an address (PTX ISA, "Initializers").
Result<Initial> Parser::initial_element() {
  Initial e;
  if (token_.kind != TokenKind::Word) {
    CKPT_TRY(e, number());
    if (!accept("(")) return e;
    e.mask = std::exchange(e.bits, 0);
    CKPT_TRY(Initial inner, initial_element());
    inner.mask = e.mask;
    CKPT_CHECK(expect(")"));
    return inner;
  }
  bool generic = token_.is("generic");
  if (generic) {
    advance();
    CKPT_CHECK(expect("("));
  }
  e.symbol = advance().text;
  if (generic) CKPT_CHECK(expect(")"));
  if (token_.is("+") || token_.is("-")) {
    CKPT_TRY(e.bits, integer());
  }
  return e;
}

Result<> Parser::initialiser(Variable &v) {
  size_t depth = 0;
  do {
    while (accept("{")) ++depth;
    if (!token_.is("}")) {
      CKPT_TRY(Initial e, initial_element());
      v.initial.push_back(e);
    }
    while (depth > 0 && accept("}")) --depth;
  } while (depth > 0 && accept(","));
  if (depth > 0) return error("'}' is expected");
  u64 element = std::max<u64>(size_of(v.type), 1);
  if (v.bytes == 0) v.bytes = element * v.initial.size();
  if (v.initial.size() > v.bytes / element) return error("an initialiser is too long");
  return {};
}

}  // namespace ckpt::softcuda::ptx
