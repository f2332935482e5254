// SPDX-License-Identifier: Apache-2.0
#include "ptx/parser.h"

#include <bit>

namespace ckpt::ptx {

Token Parser::advance() {
  Token old = token_;
  behind_ = old.text.data() + old.text.size();
  token_ = lexer_.next();
  return old;
}

bool Parser::accept(char mark) {
  bool found = token_.is(mark);
  if (found) advance();
  return found;
}

bool Parser::accept(std::string_view word) {
  bool found = token_.is(word);
  if (found) advance();
  return found;
}

Result<> Parser::expect(char mark) {
  if (accept(mark)) return {};
  return error(fmt::format("'{}' is expected", mark));
}

Failure Parser::error(std::string_view why) const {
  if (token_.is_end()) return fail("PTX line {}: {} at the end", token_.line, why);
  return fail("PTX line {}: {} near '{}'", token_.line, why, token_.text.substr(0, 40));
}

void Parser::skip_line(u32 line) {
  while (token_.line == line && !token_.is_end()) advance();
}

// An exact single-precision value takes no sign (PTX ISA, section 4.5.2).
Result<Literal> Parser::number() {
  bool negative = false, any = false;
  for (; token_.is('-') || token_.is('+'); any = true) negative ^= advance().is('-');
  if (token_.kind != TokenKind::Number) return error("a number is expected");
  std::optional<Literal> found = literal(token_.text);
  if (!found || (any && found->form == Form::Float)) return error("a number is invalid");
  advance();
  if (negative && found->form == Form::Integer) found->bits = 0 - found->bits;
  if (negative && found->form == Form::Double) found->bits ^= u64{1} << 63;
  return *found;
}

Result<u64> Parser::integer() {
  CKPT_TRY(Literal v, number());
  if (v.form != Form::Integer) return error("an integer is expected");
  return v.bits;
}

Result<u64> Parser::count() {
  if (token_.kind != TokenKind::Number) return error("a number is expected");
  return integer();
}

}  // namespace ckpt::ptx
