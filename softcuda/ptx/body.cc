// SPDX-License-Identifier: Apache-2.0
//
// The parser of function bodies. Braces are scopes for registers, variables and labels; nvcc puts
// inline assembly and every call into braces of their own.
#include <algorithm>
#include <charconv>
#include <unordered_map>

#include "ptx/parser.h"
#include "softcuda/ptx/body.h"

namespace ckpt::softcuda::ptx {
namespace {

constexpr size_t kMaxDepth = 64;  // of braces
constexpr u32 kMaxRegisters = 1u << 20;

class BodyParser : Parser {
 public:
  explicit BodyParser(const Function &f) : Parser(f.body, f.body_line) {}

  Result<Body> parse() {
    names_.emplace_back();
    open_.push_back(0);
    while (!token().is_end()) CKPT_CHECK(statement());
    return std::move(body_);
  }

 private:
  // The registers that one scope declares. `.reg .b32 %r<99>` declares a row of 99 registers.
  struct Names {
    std::unordered_map<std::string_view, u32> single;
    struct Row {
      std::string_view prefix;
      u32 count;
      u32 first;
    };
    std::vector<Row> rows;
  };

  Result<> statement() {
    if (accept(';')) return {};
    if (accept('{')) return open();
    if (accept('}')) return close();
    if (accept('@')) return instruction(true);
    if (!token().is_word()) return error("an instruction is expected");
    if (token().is_directive()) return directive();
    Token word = advance();
    if (accept(':')) return label(word);
    return operation(word, Instruction{});
  }

  Result<> open() {
    if (open_.size() >= kMaxDepth) return error("braces are nested too deeply");
    body_.scopes.push_back(open_.back());
    open_.push_back(static_cast<u32>(body_.scopes.size() - 1));
    names_.resize(body_.scopes.size());
    return {};
  }

  Result<> close() {
    if (open_.size() == 1) return error("there is no '{' for this");
    open_.pop_back();
    return {};
  }

  Result<> directive() {
    Token word = advance();
    if (word.is(".reg")) return registers(advance().text);
    // `.reg.b32 f;`, as in cuda_fp16.hpp
    if (word.text.starts_with(".reg.")) return registers(word.text.substr(4));
    if (word.is(".loc")) return skip_line(word.line), Result<>();
    if (word.is(".pragma")) {
      while (!token().is(';') && !token().is_end()) advance();
      return expect(';');
    }
    std::optional<Space> space = space_named(word.text);
    if (!space) return error(fmt::format("the directive '{}' is not supported", word.text));
    CKPT_CHECK(declaration({.space = *space}, body_.variables));
    body_.variable_scopes.resize(body_.variables.size(), open_.back());
    return {};
  }

  Result<> registers(std::string_view type_word) {
    std::optional<Type> type = type_named(type_word);
    if (!type) return error("a register's type is expected");
    do {
      if (!token().is_word()) return error("a register's name is expected");
      std::string_view name = advance().text;
      u64 count = 1;
      bool row = accept('<');
      if (row) {
        CKPT_TRY(count, this->count());
        CKPT_CHECK(expect('>'));
      }
      u32 first = static_cast<u32>(body_.registers.size());
      if (count > kMaxRegisters - first) return error("too many registers");
      body_.registers.resize(first + count, {name, *type});
      Names &here = names_[open_.back()];
      if (row)
        here.rows.push_back({name, static_cast<u32>(count), first});
      else
        here.single[name] = first;
    } while (accept(','));
    return expect(';');
  }

  // A label, or `name: .callprototype …;`, `name: .branchtargets a, b;`.
  Result<> label(Token name) {
    Label l{name.text, open_.back(), static_cast<u32>(body_.code.size()), {}};
    bool list = token().is(".branchtargets") || token().is(".calltargets");
    if (list || token().is(".callprototype")) {
      advance();
      for (; !token().is(';'); advance()) {
        if (token().is_end()) return error("';' is expected");
        if (list && token().is_word()) l.targets.push_back(token().text);
      }
      advance();
    }
    body_.labels.push_back(std::move(l));
    return {};
  }

  Result<> instruction(bool guarded) {
    Instruction in;
    in.guarded = guarded;
    in.guard_negated = accept('!');
    if (!find_register(token().text, in.guard)) return error("a predicate is expected");
    advance();
    if (accept('{')) return error("a guard cannot apply to a block");
    if (!token().is_word()) return error("an instruction is expected");
    return operation(advance(), std::move(in));
  }

  Result<> operation(Token word, Instruction in) {
    in.name = word.text;
    in.line = word.line;
    in.scope = open_.back();
    split(word.text, in);
    video_ = in.opcode.starts_with('v');
    while (!token().is(';')) {
      if (token().is_end()) return error("';' is expected");
      CKPT_TRY(Operand o, operand(0));
      in.operands.push_back(std::move(o));
      if (!token().is(';')) CKPT_CHECK(expect(','));
    }
    advance();
    body_.code.push_back(std::move(in));
    return {};
  }

  static void split(std::string_view name, Instruction &in) {
    size_t dot = name.find('.');
    in.opcode = name.substr(0, dot);
    while (dot != name.npos) {
      size_t end = name.find('.', dot + 1);
      in.modifiers.push_back(name.substr(dot + 1, end == name.npos ? end : end - dot - 1));
      dot = end;
    }
  }

  Result<Operand> operand(size_t depth) {
    if (depth > 4) return error("an operand is nested too deeply");
    if (token().is('[')) return group(OperandKind::Address, ']', depth);
    if (token().is('{')) {
      CKPT_TRY(Operand o, group(OperandKind::Vector, '}', depth));
      CKPT_CHECK(second(o));
      return o;
    }
    if (token().is('(')) return group(OperandKind::List, ')', depth);
    if (accept('!')) {
      CKPT_TRY(Operand o, operand(depth + 1));
      o.negated = true;
      return o;
    }
    if (video_ && token().is('-') && Lexer(lexer_).next().is_word()) {
      advance();
      CKPT_TRY(Operand o, operand(depth + 1));
      o.negated = true;
      return o;
    }
    if (!token().is_word()) return immediate();
    CKPT_TRY(Operand o, named(advance().text));
    CKPT_CHECK(second(o));
    if (token().is('+') || token().is('-')) {
      CKPT_TRY(o.bits, integer());
    }
    return o;
  }

  // The q of %p|%q.
  Result<> second(Operand &o) {
    if (!accept('|')) return {};
    CKPT_TRY(Operand q, named(advance().text));
    o.second.push_back(std::move(q));
    return {};
  }

  Result<Operand> group(OperandKind kind, char end, size_t depth) {
    Operand o;
    o.kind = kind;
    advance();
    while (!accept(end)) {
      CKPT_TRY(Operand inner, operand(depth + 1));
      o.inner.push_back(std::move(inner));
      if (!token().is(end)) CKPT_CHECK(expect(','));
    }
    return o;
  }

  Result<Operand> immediate() {
    CKPT_TRY(Literal v, number());
    Operand o;
    o.kind = v.form == Form::Float    ? OperandKind::Float
             : v.form == Form::Double ? OperandKind::Double
                                      : OperandKind::Integer;
    o.bits = v.bits;
    return o;
  }

  Result<Operand> named(std::string_view name) {
    Operand o;
    o.text = name;
    if (name == "_") return o;
    o.kind = find_register(name, o.index) ? OperandKind::Register : OperandKind::Symbol;
    if (size_t dot = name.rfind('.'); video_ && o.kind == OperandKind::Symbol && dot != name.npos) {
      o.part = name.substr(dot + 1);
      if (find_register(name.substr(0, dot), o.index)) o.kind = OperandKind::Register;
    }
    return o;
  }

  bool find_register(std::string_view name, u32 &index) const {
    for (u32 scope = open_.back();; scope = body_.scopes[scope]) {
      if (find_in(names_[scope], name, index)) return true;
      if (scope == 0) return false;
    }
  }

  static bool find_in(const Names &names, std::string_view name, u32 &index) {
    if (auto it = names.single.find(name); it != names.single.end()) {
      index = it->second;
      return true;
    }
    for (const Names::Row &row : names.rows) {
      if (!name.starts_with(row.prefix)) continue;
      std::string_view digits = name.substr(row.prefix.size());
      u32 n = 0;
      auto [end, e] = std::from_chars(digits.data(), digits.data() + digits.size(), n);
      if (e != std::errc() || end != digits.data() + digits.size() || n >= row.count) continue;
      index = row.first + n;
      return true;
    }
    return false;
  }

  Body body_;
  bool video_ = false;        // the operands may have parts and signs
  std::vector<u32> open_;     // open scopes, the innermost last
  std::vector<Names> names_;  // by scope
};

// The first result of find(scope) that is not null, from `scope` outwards.
template <class F>
auto outwards(const std::vector<u32> &scopes, u32 scope, F find) -> decltype(find(scope)) {
  for (;; scope = scopes[scope]) {
    if (auto *found = find(scope)) return found;
    if (scope == 0) return nullptr;
  }
}

}  // namespace

bool Instruction::has(std::string_view modifier) const {
  return std::find(modifiers.begin(), modifiers.end(), modifier) != modifiers.end();
}

Space Instruction::space() const {
  for (std::string_view m : modifiers)
    if (std::optional<Space> s = space_named(m)) return *s;
  return Space::Generic;
}

Type Instruction::type(size_t n) const {
  for (std::string_view m : modifiers)
    if (std::optional<Type> t = type_named(m); t && n-- == 0) return *t;
  return Type::None;
}

const Label *Body::label(std::string_view name, u32 scope) const {
  return outwards(scopes, scope, [&](u32 s) -> const Label * {
    for (const Label &l : labels)
      if (l.scope == s && l.name == name) return &l;
    return nullptr;
  });
}

const Variable *Body::variable(std::string_view name, u32 scope) const {
  return outwards(scopes, scope, [&](u32 s) -> const Variable * {
    for (size_t i = variables.size(); i-- > 0;)
      if (variable_scopes[i] == s && variables[i].name == name) return &variables[i];
    return nullptr;
  });
}

Result<Body> parse_body(const Function &function) { return BodyParser(function).parse(); }

}  // namespace ckpt::softcuda::ptx
