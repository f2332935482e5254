// SPDX-License-Identifier: Apache-2.0
#include "ptx/declaration.h"

#include <algorithm>
#include <bit>

#include "common/base/rounded_up.h"
#include "ptx/parser.h"

namespace ckpt::ptx {

Layout layout_of(const std::vector<Variable> &parameters) {
  Layout all;
  for (const Variable &p : parameters) {
    all.offsets.push_back(rounded_up(all.end, p.align));
    all.end = all.offsets.back() + p.bytes;
  }
  return all;
}

Result<> Parser::qualifiers(Variable &v) {
  bool pointer = false;  // behind .ptr, the target of the pointer is described
  while (token_.is_directive()) {
    std::string_view word = token_.text;
    std::optional<Type> type = type_named(word);
    if (!type && word != ".align" && word != ".attribute" && word != ".ptr" && word != ".v2" &&
        word != ".v4" && !(pointer && space_named(word)))
      return error("this is no type of variables");
    advance();
    if (type) v.type = *type;
    if (word == ".align") CKPT_CHECK(alignment(v, pointer));
    if (word == ".attribute") CKPT_CHECK(attribute(v.managed));
    if (word == ".v2" || word == ".v4") v.lanes = static_cast<u8>(word[2] - '0');
    pointer |= word == ".ptr";
  }
  return fit_type(v);
}

Result<> Parser::alignment(Variable &v, bool of_target) {
  CKPT_TRY(u64 align, count());
  if (!std::has_single_bit(align)) return error("an alignment is not a power of two");
  if (align > kMaxAlignment) return error("an alignment is too large");
  if (!of_target) v.align = std::max(v.align, static_cast<u32>(align));
  return {};
}

Result<> Parser::attribute(bool &managed) {
  CKPT_CHECK(expect('('));
  for (size_t depth = 1; depth > 0; advance()) {
    if (token_.is_end()) return error("')' is expected");
    managed |= token_.is(".managed");
    if (token_.is('(')) ++depth;
    if (token_.is(')')) --depth;
  }
  return {};
}

// No declaration makes the alignment less than the natural one.
Result<> Parser::fit_type(Variable &v) {
  if (!is_fundamental(v.type)) return error("a type of variables is expected");
  if (v.type == Type::Pred && v.space != Space::Register)
    return error("a predicate is not a register");
  if (element_bytes(v) > 16) return error("a vector has more than 128 bits");
  v.align = std::max(v.align, static_cast<u32>(element_bytes(v)));
  return {};
}

Result<> Parser::declarator(Variable &v, bool unsized) {
  if (!token_.is_word() || token_.is_directive()) return error("a name is expected");
  v.line = token_.line;
  v.name = advance().text;
  if (token_.is('<')) return error("rows of variables are not supported");
  const char *begin = behind_;
  CKPT_TRY(Shape s, shape(v));
  v.has_value = accept('=');
  if (v.has_value) CKPT_CHECK(initializer(v, s));
  v.definition = {begin, static_cast<size_t>(token_.text.data() - begin)};
  return set_size(v, s, unsized);
}

u64 Shape::values_in_item(size_t level) const {
  u64 n = 1;
  while (++level < levels) n *= most[level];
  return n;
}

// Reads the dimensions. Only the first one may be missing or 0.
Result<Shape> Parser::shape(const Variable &v) {
  Shape s;
  for (u64 all = element_bytes(v); accept('[');) {
    if (s.levels == kMaxDimensions) return error("an array has too many dimensions");
    u64 n = 0;
    if (s.levels > 0 || !token_.is(']')) {
      CKPT_TRY(n, count());
    }
    if (n == 0 && s.levels > 0) return error("an inner dimension is 0");
    s.open |= n == 0;
    if (n > 0 && all > kMaxVariableBytes / n) return error("a variable is too large");
    all *= std::max<u64>(n, 1);
    s.most[s.levels++] = n;
    CKPT_CHECK(expect(']'));
  }
  if (v.lanes > 1) s.most[s.levels++] = v.lanes;
  if (s.open) s.most[0] = kMaxVariableBytes / 16 / std::max<u64>(s.values_in_item(0), 1);
  return s;
}

Result<> Parser::set_size(Variable &v, const Shape &s, bool unsized) {
  bool known = !s.open || v.has_value;
  if (!known && !unsized && !v.external) return error(fmt::format("{} has no size", v.name));
  u64 values = s.levels > 0 ? s.most[0] * s.values_in_item(0) : 1;
  v.bytes = known ? values * size_of(v.type) : 0;
  return {};
}

Result<> Parser::declaration(Variable v, std::vector<Variable> &out) {
  CKPT_CHECK(qualifiers(v));
  do {
    if (out.size() >= kMaxVariables) return error("there are too many variables");
    out.push_back(v);
    if (Result<> r = declarator(out.back(), false); !r) {
      out.pop_back();
      return r;
    }
  } while (accept(','));
  return expect(';');
}

}  // namespace ckpt::ptx
