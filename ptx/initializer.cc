// SPDX-License-Identifier: Apache-2.0
#include "ptx/initializer.h"

#include <bit>

#include "ptx/parser.h"

namespace ckpt::ptx {
namespace {

constexpr size_t kMaxDepth = 16;              // of parentheses
constexpr u64 kMaxInitialBytes = 256u << 20;  // a short text may say that a distant value is not 0
constexpr u64 kWarpSize = 32;

// Adds, or says why that is no constant expression.
const char *add(Value &to, const Value &v, bool minus) {
  bool both = to.form == v.form && v.form != Form::Float;
  if (!both || to.mask != 0 || v.mask != 0) return "these values cannot be added";
  if (!v.symbol.empty() && (minus || !to.symbol.empty())) return "addresses cannot be added";
  if (v.form == Form::Double) {
    double a = std::bit_cast<double>(to.bits), b = std::bit_cast<double>(v.bits);
    to.bits = std::bit_cast<u64>(minus ? a - b : a + b);
  } else {
    to.bits += minus ? 0 - v.bits : v.bits;
  }
  if (!v.symbol.empty()) to.symbol = v.symbol;
  return nullptr;
}

// Whether a variable of that type may have the value (PTX ISA, section 5.4.4).
bool fits(const Value &v, Type type) {
  size_t size = size_of(type);
  if (!v.symbol.empty()) return !is_float(type) && (size == 4 || size == 8 || v.mask != 0);
  if (is_float(type)) return v.form != Form::Integer && size >= 4 && type != Type::F16x2;
  return v.form == Form::Integer || (is_untyped(type) && (size == 4 || size == 8));
}

u64 converted(const Value &v, size_t size) {
  if (v.form == Form::Double && size == 4)
    return std::bit_cast<u32>(static_cast<float>(std::bit_cast<double>(v.bits)));
  if (v.form == Form::Float && size == 8)
    return std::bit_cast<u64>(double{std::bit_cast<float>(static_cast<u32>(v.bits))});
  return v.bits;
}

u64 byte_of(u64 bits, u64 mask) { return (bits & mask) >> std::countr_zero(mask); }

class InitialValue : Parser {
 public:
  InitialValue(const Variable &v, const AddressOf &address_of)
      : Parser(v.definition, v.line), v_(v), address_of_(address_of) {}

  Result<Bytes> read() {
    CKPT_TRY(Shape s, shape(v_));
    CKPT_CHECK(expect('='));
    CKPT_CHECK(list(s, 0, 0, v_.type,
                    [this](u64 position, const Value &v) { return write(position, v); }));
    return std::move(out_);
  }

 private:
  Result<> write(u64 position, const Value &v) {
    size_t size = size_of(v_.type);
    u64 end = (position + 1) * size;
    if (size > sizeof(u64)) return fail("{} has values of 128 bits", v_.name);
    if (end > kMaxInitialBytes)
      return fail("the initial value of {} has more than {} bytes", v_.name, kMaxInitialBytes);
    u64 bits = converted(v, size);
    if (!v.symbol.empty()) {
      std::optional<u64> address = address_of_(v.symbol);
      if (!address) return fail("{} has the address of {}", v_.name, v.symbol);
      bits += *address;
      if (v.mask != 0) bits = byte_of(bits, v.mask);
    }
    if (out_.size() < end) out_.resize(end);
    std::memcpy(out_.data() + end - size, &bits, size);
    return {};
  }

  const Variable &v_;
  const AddressOf &address_of_;
  Bytes out_;
};

}  // namespace

// Checks the value, and finds the size of an array without one.
Result<> Parser::initializer(const Variable &v, Shape &s) {
  if (v.external) return error(fmt::format("{} is external, but has a value", v.name));
  if (is_reference(v.type)) return fields(s);
  CKPT_TRY(u64 items, list(s, 0, 0, v.type, {}));
  if (s.open && items == 0) return error(fmt::format("{} has no size", v.name));
  if (s.open) s.most[0] = items;
  return {};
}

// { addr_mode_0 = wrap, … } of a texture, surface or sampler; a list of them for an array.
Result<> Parser::fields(const Shape &s) {
  if (s.open) return error("an array of references has no size");
  CKPT_CHECK(expect('{'));
  for (size_t depth = 1; depth > 0; advance()) {
    if (token_.is_end()) return error("'}' is expected");
    if (token_.is('{')) ++depth;
    if (token_.is('}')) --depth;
  }
  return {};
}

Result<u64> Parser::list(const Shape &s, size_t level, u64 first, Type type, const Take &take) {
  if (level == s.levels) {
    CKPT_TRY(Value v, value(type));
    if (take) CKPT_CHECK(take(first, v));
    return 1;
  }
  CKPT_CHECK(expect('{'));
  u64 items = 0, step = s.values_in_item(level);
  if (accept('}')) return 0;
  do {
    if (items == s.most[level]) return error("an initializer is too long");
    CKPT_CHECK(list(s, level + 1, first + items++ * step, type, take));
  } while (accept(','));
  CKPT_CHECK(expect('}'));
  return items;
}

Result<Value> Parser::value(Type type) {
  CKPT_TRY(Value v, sum(0));
  if (!fits(v, type)) return error("the type does not allow this initial value");
  return v;
}

// Of all operators of constant expressions (PTX ISA, section 4.5.4), compilers write these alone.
Result<Value> Parser::sum(size_t depth) {
  CKPT_TRY(Value v, term(depth));
  while (token_.is('+') || token_.is('-')) {
    bool minus = advance().is('-');
    CKPT_TRY(Value next, term(depth));
    if (const char *why = add(v, next, minus)) return error(why);
  }
  return v;
}

Result<Value> Parser::term(size_t depth) {
  if (accept('(')) return in_parentheses(depth);
  if (!token_.is_word()) {
    CKPT_TRY(Literal l, number());
    bool mask = l.form == Form::Integer && accept('(');
    return mask ? masked(l.bits, depth) : Value{l.bits, l.form, {}};
  }
  std::string_view word = advance().text;
  if (word == "WARP_SZ") return Value{kWarpSize};
  if (word != "generic") return Value{0, Form::Integer, word};
  CKPT_CHECK(expect('('));
  return in_parentheses(depth);
}

// The '(' has been read.
Result<Value> Parser::in_parentheses(size_t depth) {
  if (depth == kMaxDepth) return error("parentheses are nested too deeply");
  CKPT_TRY(Value v, sum(depth + 1));
  CKPT_CHECK(expect(')'));
  return v;
}

// 0xFF00(address) is the second byte of the address.
Result<Value> Parser::masked(u64 mask, size_t depth) {
  if (mask == 0 || mask != u64{0xFF} << std::countr_zero(mask) || std::countr_zero(mask) % 8 != 0)
    return error("a mask does not select one byte");
  CKPT_TRY(Value v, in_parentheses(depth));
  if (v.form != Form::Integer || v.mask != 0) return error("a mask needs an address");
  v.mask = v.symbol.empty() ? 0 : mask;
  if (v.mask == 0) v.bits = byte_of(v.bits, mask);
  return v;
}

std::vector<std::string_view> names_in(const Variable &v) {
  std::vector<std::string_view> names;
  if (!v.has_value || is_reference(v.type)) return names;
  Lexer lexer(v.definition);
  for (Token t = lexer.next(); !t.is_end(); t = lexer.next())
    if (t.is_word() && t.text != "generic" && t.text != "WARP_SZ") names.push_back(t.text);
  return names;
}

Result<Bytes> initial_value(const Variable &v, const AddressOf &address_of) {
  if (!v.has_value || is_reference(v.type)) return Bytes{};
  return InitialValue(v, address_of).read();
}

}  // namespace ckpt::ptx
