// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/placing/module_text.h"

#include <algorithm>
#include <charconv>
#include <unordered_set>
#include <utility>

#include "fatbin/ptx_lexer.h"
#include "remote/cuda/placing/handle_use.h"

namespace ckpt::remote::cuda {
namespace {

using fatbin::PtxLexer;
using fatbin::Token;

constexpr u64 kMaxVariableBytes = u64{1} << 40;  // more than any device has
constexpr size_t kMaxVariables = 1u << 16;

bool is_linkage(const Token &t) {
  return t.is(".visible") || t.is(".weak") || t.is(".extern") || t.is(".common");
}

bool fills_its_line(const Token &t) {
  return t.is(".version") || t.is(".target") || t.is(".address_size") || t.is(".file") ||
         t.is(".loc") || t.text.starts_with("@@");
}

class TextReader {
 public:
  explicit TextReader(std::string_view text) : text_(text), lexer_(text) {}

  Result<ModuleText> read() {
    for (Token t = lexer_.next(); t.kind != Token::End; t = lexer_.next()) CKPT_CHECK(directive(t));
    for (std::string_view name : functions_)
      if (moved_.contains(name)) out_.taken_function = name;
    return std::move(out_);
  }

 private:
  size_t offset(const Token &t) const { return static_cast<size_t>(t.text.data() - text_.data()); }

  Result<> directive(Token t) {
    // As the software device's linker puts them together.
    if (t.is(".version") && std::exchange(versioned_, true))
      return fail("it is a text of several modules");
    if (fills_its_line(t)) return line(t), Result<>();
    size_t begin = offset(t);
    DeclaredVariable v{.hidden = true, .begin = begin};
    for (; is_linkage(t); t = lexer_.next()) {
      v.imported |= t.is(".extern");
      v.hidden = false;
    }
    v.constant = t.is(".const");
    if (t.is(".entry") || t.is(".func")) return routine();
    if (t.is(".global") || t.is(".const")) return variable(v);
    if (t.is(".section")) return section();
    skip_to_end(t);
    return {};
  }

  // "texmode_independent": PTX ISA, section 11.1.2.
  void line(const Token &t) {
    std::string_view rest = lexer_.line();
    if (t.is(".target")) out_.samplers = rest.find("texmode_independent") != rest.npos;
  }

  void skip_to_end(Token t) {
    while (t.kind != Token::End && !t.is(';')) t = lexer_.next();
  }

  Result<> section() {
    Token t = lexer_.next();
    while (t.kind != Token::End && !t.is('{')) t = lexer_.next();
    if (t.kind == Token::End || !block()) return fail("a section has no end");
    out_.sections.push_back({offset(t), end_});
    return {};
  }

  // The opening brace has been read.
  bool block() {
    bool moves = false;
    for (size_t depth = 1; depth > 0;) {
      Token t = lexer_.next();
      if (t.kind == Token::End) return false;
      if (t.kind == Token::Word && moves) moved_.insert(t.text);
      if (t.text.starts_with("mov.")) moves = true;
      if (t.kind == Token::Word && takes_handle(t.text)) out_.textures = true;
      if (t.is(';')) moves = false;
      if (t.is('{')) ++depth;
      if (t.is('}')) --depth;
      if (depth == 0) end_ = offset(t);
    }
    return true;
  }

  // .func (result) name (parameters) directives, then a body or ';'.
  Result<> routine() {
    std::string_view name;
    size_t depth = 0;
    for (;;) {
      Token t = lexer_.next();
      if (t.kind == Token::End || (t.is(';') && depth == 0)) break;
      if (t.is('(')) ++depth;
      if (t.is(')') && depth > 0) --depth;
      if (t.kind == Token::Word && depth == 0 && name.empty() && t.text[0] != '.') name = t.text;
      if (!t.is('{')) continue;
      size_t begin = offset(t) + 1;
      if (!block()) return fail("the body of {} has no end", name);
      out_.bodies.push_back({begin, end_});
      break;
    }
    functions_.push_back(name);
    return {};
  }

  Result<> variable(DeclaredVariable v) {
    vector_ = count_ = 1;
    open_ = false;
    for (;;) {
      Token t = lexer_.next();
      if (t.kind == Token::End) return fail("the variable {} has no end", v.name);
      if (t.is(';')) return add(v, offset(t));
      if (t.is(',')) return fail("one declaration names several variables");
      if (t.is('[')) CKPT_CHECK(dimension());
      if (t.is('=')) {
        CKPT_TRY(size_t end, initializer(v, offset(t) + 1));
        return add(v, end);
      }
      if (t.kind == Token::Word) CKPT_CHECK(qualifier(v, t.text));
    }
  }

  Result<> add(DeclaredVariable v, size_t end) {
    v.end = end + 1;
    u64 each = u64{v.element_bytes} * vector_;
    if (open_ && !v.imported) return fail("the variable {} has no size", v.name);
    if (each == 0 && !v.reference) return fail("the variable {} has an unknown type", v.name);
    if (count_ > kMaxVariableBytes / std::max<u64>(each, 1))
      return fail("the variable {} is too large", v.name);
    v.bytes = each * count_;
    if (v.alignment == 1) v.alignment = std::max<u64>(each, 1);
    if (v.name.empty() || out_.variables.size() == kMaxVariables)
      return fail("it has too many variables, or one without a name");
    out_.variables.push_back(v);
    return {};
  }

  // Returns the offset of the ';'. The number of values is the size of an array without one.
  Result<size_t> initializer(DeclaredVariable &v, size_t begin) {
    u64 values = 1;
    Token t = lexer_.next();
    for (; t.kind != Token::End && !t.is(';'); t = lexer_.next())
      if (t.is(',')) ++values;
    if (t.kind == Token::End) return fail("the variable {} has no end", v.name);
    size_t end = offset(t);
    v.initial = text_.substr(begin, end - begin);
    if (std::exchange(open_, false)) count_ *= values;
    return end;
  }

  Result<> dimension() {
    Token t = lexer_.next();
    if (t.is(']')) return open_ = true, Result<>();
    CKPT_TRY(u64 n, number(t.text));
    if (n == 0 || count_ > kMaxVariableBytes / n)
      return fail("an array's size {} is wrong", t.text);
    count_ *= n;
    return lexer_.next().is(']') ? Result<>() : fail("an array's size is not a number");
  }

  Result<> qualifier(DeclaredVariable &v, std::string_view word) {
    if (word[0] != '.') {
      if (!v.name.empty()) return fail("the declaration of {} cannot be read", v.name);
      v.name = word;
    } else if (word == ".align") {
      CKPT_TRY(v.alignment, number(lexer_.next().text));
      if (v.alignment == 0 || v.alignment > 4096) return fail("an alignment is wrong");
    } else if (word == ".attribute") {
      for (Token t = lexer_.next(); t.kind != Token::End && !t.is(')'); t = lexer_.next())
        v.managed |= t.is(".managed");
    } else if (word == ".v2" || word == ".v4" || word == ".v8") {
      vector_ = static_cast<u32>(word[2] - '0');
    } else if (word == ".texref" || word == ".surfref" || word == ".samplerref") {
      v.reference = true;
    } else {
      return type(v, word);
    }
    return {};
  }

  // A fundamental type (PTX ISA, section 5.2.1).
  Result<> type(DeclaredVariable &v, std::string_view word) {
    u64 bits = 0;
    if (word == ".f16x2" || word == ".bf16x2")
      bits = 32;
    else if (word == ".bf16")
      bits = 16;
    else if (word.size() > 2 && std::string_view("busf").find(word[1]) != std::string_view::npos)
      std::from_chars(word.data() + 2, word.data() + word.size(), bits);
    if (bits < 8 || bits > 128 || bits % 8 != 0) return fail("{} is no known type", word);
    v.element_bytes = static_cast<u32>(bits / 8);
    v.floating = word[1] == 'f' || word.starts_with(".bf");
    return {};
  }

  static Result<u64> number(std::string_view word) {
    u64 value = 0;
    auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc{} || end != word.data() + word.size())
      return fail("{} is not a number", word);
    return value;
  }

  std::string_view text_;
  PtxLexer lexer_;
  ModuleText out_;
  bool versioned_ = false;
  size_t end_ = 0;  // of the last block
  std::vector<std::string_view> functions_;
  std::unordered_set<std::string_view> moved_;  // operands of mov
  // Of the variable that is being read.
  u32 vector_ = 1;
  u64 count_ = 1;
  bool open_ = false;
};

}  // namespace

Result<ModuleText> read_module(std::string_view ptx) { return TextReader(ptx).read(); }

}  // namespace ckpt::remote::cuda
