// SPDX-License-Identifier: Apache-2.0
//
// What the parsers of modules and of bodies have in common: one token of look-ahead, numbers,
// declarations of variables and their initial values.
#pragma once

#include <array>
#include <functional>
#include <vector>

#include "common/base/result.h"
#include "ptx/declaration.h"
#include "ptx/lexer.h"
#include "ptx/literal.h"

namespace ckpt::ptx {

// One value of an initializer: a constant, or the address of a symbol.
struct Value {
  u64 bits = 0;
  Form form = Form::Integer;
  std::string_view symbol;  // if not empty, its address is added
  u64 mask = 0;             // if not 0, only this byte of the address
};

// The nested lists of an initializer, which match the declaration: one level for each dimension,
// the outermost first, and one for the components of a vector. Below the last one stand values.
struct Shape {
  size_t levels = 0;
  std::array<u64, kMaxDimensions + 1> most{};  // items in a list
  bool open = false;                           // the initializer determines most[0]

  u64 values_in_item(size_t level) const;
};

class Parser {
 public:
  explicit Parser(std::string_view text, u32 line = 1) : lexer_(text, line) { advance(); }

 protected:
  const Token &token() const { return token_; }
  // The end of the token in front of it.
  const char *behind() const { return behind_; }
  Token advance();
  bool accept(char mark);
  bool accept(std::string_view word);
  Result<> expect(char mark);
  // Names the line and the token.
  Failure error(std::string_view why) const;
  // Past the tokens of that line.
  void skip_line(u32 line);

  // A constant with any signs in front.
  Result<Literal> number();
  Result<u64> integer();
  // An integer without a sign.
  Result<u64> count();

  // Behind .attribute: (.managed), (.unified(1, 2)).
  Result<> attribute(bool &managed);
  // Behind the state space and in front of the name: `.align 4 .v2 .f32`.
  Result<> qualifiers(Variable &v);
  // `x[16] = {…}`. If `unsized`, the size may be missing without a value, too.
  Result<> declarator(Variable &v, bool unsized);
  // All that one declaration names, with its ';': `.u32 x, y[4];`. `v` has what stands in front.
  Result<> declaration(Variable v, std::vector<Variable> &out);

  Result<Shape> shape(const Variable &v);
  // Called with the position of each value among all values.
  using Take = std::function<Result<>(u64 position, const Value &)>;
  // A list of that level; the number of its items.
  Result<u64> list(const Shape &s, size_t level, u64 first, Type type, const Take &take);

  Lexer lexer_;

 private:
  Result<> alignment(Variable &v, bool of_target);
  Result<> fit_type(Variable &v);
  Result<> set_size(Variable &v, const Shape &s, bool unsized);
  Result<> initializer(const Variable &v, Shape &s);
  Result<> fields(const Shape &s);
  Result<Value> value(Type type);
  Result<Value> sum(size_t depth);
  Result<Value> term(size_t depth);
  Result<Value> in_parentheses(size_t depth);
  Result<Value> masked(u64 mask, size_t depth);

  Token token_;
  const char *behind_ = nullptr;
};

}  // namespace ckpt::ptx
