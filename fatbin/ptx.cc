// SPDX-License-Identifier: Apache-2.0
//
// A module is a list of directives. Function bodies are skipped, except for instructions on
// textures and surfaces. Parameters are laid out as in the PTX ISA (sections 5.2 and 7.1): each
// begins at the next multiple of its own alignment.
#include "fatbin/ptx.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "common/base/rounded_up.h"
#include "fatbin/names.h"
#include "fatbin/ptx_lexer.h"

namespace ckpt::fatbin {
namespace {

constexpr u64 kMaxVariableBytes = u64{1} << 40;  // more than any device has
constexpr u64 kMaxParameterBytes = 1u << 16;     // CUDA allows 32764

u64 number(std::string_view word) {
  int base = word.starts_with("0x") || word.starts_with("0X") ? 16 : 10;
  if (base == 16) word.remove_prefix(2);
  u64 value = 0;
  std::from_chars(word.data(), word.data() + word.size(), value, base);
  return value;
}

// Bytes of a fundamental type such as ".f32"; 0 for any other word.
u32 bytes_of_type(std::string_view word) {
  if (word.size() < 3 || word[0] != '.') return 0;
  if (word == ".f16x2" || word == ".bf16x2") return 4;
  if (word == ".bf16") return 2;
  if (word == ".pred" || std::string_view("busf").find(word[1]) == std::string_view::npos) return 0;
  u64 bits = 0;
  auto [end, error] = std::from_chars(word.data() + 2, word.data() + word.size(), bits);
  bool whole = error == std::errc() && end == word.data() + word.size();
  return whole && bits % 8 == 0 && bits >= 8 && bits <= 128 ? static_cast<u32>(bits / 8) : 0;
}

std::optional<ReferenceKind> reference_kind(std::string_view word) {
  if (word == ".texref") return ReferenceKind::Texture;
  if (word == ".surfref") return ReferenceKind::Surface;
  if (word == ".samplerref") return ReferenceKind::Sampler;
  return {};
}

// A variable or parameter: its name, and what is declared before and after it.
struct Declaration {
  u32 element_bytes = 0;
  u32 vector = 1;
  u32 alignment = 0;  // 0: the natural one
  bool managed = false;
  bool pointer = false;  // after .ptr, whose .align describes the target of the pointer
  bool open = false;     // [] without a size: the initializer determines it
  std::optional<ReferenceKind> reference;
  std::string_view name;
  u64 count = 1;

  u64 bytes() const {
    u64 each = u64{element_bytes} * vector;
    return each == 0 || count <= kMaxVariableBytes / each ? each * count : kMaxVariableBytes;
  }
  u64 aligned_to() const {
    return alignment ? alignment : std::max<u32>(1, element_bytes * vector);
  }
};

class PtxModule {
 public:
  explicit PtxModule(std::string_view text) : lexer_(text) {}

  Result<CodeFacts> read() {
    facts_.uses_textures = facts_.uses_surfaces = false;
    for (Token t = lexer_.next(); t.kind != Token::End; t = lexer_.next()) CKPT_CHECK(directive(t));
    if (facts_.target.empty()) return fail("there is no .target directive, so this is not PTX");
    return std::move(facts_);
  }

 private:
  Result<> directive(const Token &t) {
    bool imported = std::exchange(extern_, false);
    if (t.is(".extern")) extern_ = true;
    if (t.is(".target")) read_target();
    if (t.is(".version") || t.is(".address_size") || t.is(".file") || t.is(".loc")) lexer_.line();
    if (t.is(".entry")) return entry();
    if (t.is(".func")) return function(imported);
    if (t.is(".global")) return variables(Space::Global, imported);
    if (t.is(".const")) return variables(Space::Constant, imported);
    if (t.is('{')) skip_block();
    return {};
  }

  void read_target() {
    Token t = lexer_.next();
    if (facts_.target.empty() && t.text.starts_with("sm_") && t.text.size() < 16)
      facts_.target = t.text;
    lexer_.line();
  }

  // The opening brace has been read.
  void skip_block() {
    for (size_t depth = 1; depth > 0;) {
      Token t = lexer_.next();
      if (t.kind == Token::End) return;
      if (t.kind == Token::Word) instruction(t.text);
      if (t.is('{')) ++depth;
      if (t.is('}')) --depth;
    }
  }

  // Texture and surface instructions: PTX ISA, sections 9.7.10 and 9.7.11.
  void instruction(std::string_view word) {
    if (word[0] != 't' && word[0] != 's') return;
    auto begins = [&](std::string_view name) { return word.starts_with(name); };
    if (begins("tex.") || begins("tld4.") || begins("txq.")) facts_.uses_textures = true;
    if (begins("suld.") || begins("sust.") || begins("sured.") || begins("suq."))
      facts_.uses_surfaces = true;
  }

  void skip_parentheses() {
    for (size_t depth = 1; depth > 0;) {
      Token t = lexer_.next();
      if (t.kind == Token::End) return;
      if (t.is('(')) ++depth;
      if (t.is(')')) --depth;
    }
  }

  // .func (result) name (parameters), then a body, or ';' for a mere declaration.
  Result<> function(bool imported) {
    std::string_view name;
    for (Token t = lexer_.next(); t.kind != Token::End && !t.is(';'); t = lexer_.next()) {
      if (t.is('(')) skip_parentheses();
      if (t.kind == Token::Word && name.empty() && t.text[0] != '.') name = t.text;
      if (t.is('{')) {
        skip_block();
        break;
      }
    }
    note_function(facts_, name, imported);
    return {};
  }

  Result<> entry() {
    Kernel kernel;
    CKPT_TRY(kernel.name, names_.take(lexer_.next().text));
    for (Token t = lexer_.next(); t.kind != Token::End && !t.is(';'); t = lexer_.next()) {
      if (t.is('(')) CKPT_CHECK(parameters(kernel));
      if (!t.is('{')) continue;
      skip_block();
      facts_.kernels.push_back(std::move(kernel));
      break;
    }
    return {};
  }

  // The opening parenthesis has been read.
  Result<> parameters(Kernel &kernel) {
    for (;;) {
      Declaration d;
      Token end = declaration(d);
      if (!d.name.empty()) CKPT_CHECK(add_parameter(kernel, d));
      if (!end.is(',')) return {};
    }
  }

  Result<> add_parameter(Kernel &kernel, const Declaration &d) {
    u64 bytes = d.reference ? sizeof(u64) : d.bytes();
    u64 to = d.reference ? sizeof(u64) : d.aligned_to();
    if (bytes == 0) return {};
    CKPT_CHECK(names_.take({}));
    u64 offset = rounded_up(kernel.parameter_bytes, to);
    if (offset + bytes > kMaxParameterBytes)
      return fail("the parameters of kernel {} exceed the limit of {} bytes", kernel.name,
                  kMaxParameterBytes);
    kernel.parameters.push_back({static_cast<u32>(offset), static_cast<u32>(bytes)});
    kernel.parameter_bytes = static_cast<u32>(offset + bytes);
    return {};
  }

  // Returns the ',', ';' or ')' that ends the declaration.
  Token declaration(Declaration &d) {
    for (;;) {
      Token t = lexer_.next();
      if (t.kind == Token::End || t.is(',') || t.is(';') || t.is(')')) return t;
      if (t.is('[')) dimension(d);
      if (t.is('=')) return initializer(d);
      if (t.kind == Token::Word) qualifier(d, t.text);
    }
  }

  void qualifier(Declaration &d, std::string_view word) {
    if (word[0] != '.') {
      if (d.name.empty()) d.name = word;
    } else if (word == ".align") {
      u64 to = number(lexer_.next().text);
      if (!d.pointer && to <= 128) d.alignment = static_cast<u32>(to);
    } else if (word == ".attribute") {
      attribute(d);
    } else if (word == ".ptr") {
      d.pointer = true;
    } else if (word == ".v2" || word == ".v4" || word == ".v8") {
      d.vector = static_cast<u32>(word[2] - '0');
    } else if (auto kind = reference_kind(word)) {
      d.reference = kind;
    } else if (u32 bytes = bytes_of_type(word)) {
      d.element_bytes = bytes;
    }
  }

  void attribute(Declaration &d) {
    size_t depth = 0;
    for (Token t = lexer_.next(); t.kind != Token::End; t = lexer_.next()) {
      if (t.is(".managed")) d.managed = true;
      if (t.is('(')) ++depth;
      if (t.is(')') && (depth == 0 || --depth == 0)) return;
    }
  }

  // The opening bracket has been read.
  void dimension(Declaration &d) {
    Token t = lexer_.next();
    if (t.is(']')) {
      d.open = true;
      return;
    }
    u64 n = number(t.text);
    d.count = n == 0 || d.count <= kMaxVariableBytes / n ? d.count * n : kMaxVariableBytes;
    lexer_.next();
  }

  // The '=' has been read. The number of items is the size of an open array. An item begins with
  // the first word after a '{' or a ','.
  Token initializer(Declaration &d) {
    u64 items = 0;
    size_t depth = 0;
    bool item_expected = true;
    for (;;) {
      Token t = lexer_.next();
      if (t.kind == Token::End || t.is(';') || (depth == 0 && t.is(','))) {
        if (std::exchange(d.open, false)) d.count *= items;
        return t;
      }
      if (t.is('{')) ++depth;
      if (t.is('}') && depth > 0) --depth;
      if (t.is('{') || t.is(',')) item_expected = true;
      if (t.kind == Token::Word && std::exchange(item_expected, false)) ++items;
    }
  }

  // Several declarations may follow one type, separated by commas.
  Result<> variables(Space space, bool imported) {
    Declaration d;
    for (;;) {
      Token end = declaration(d);
      if (!imported) CKPT_CHECK(add_variable(d, space));
      if (!end.is(',')) return {};
      d.name = {};
      d.count = 1;
      d.open = false;
    }
  }

  Result<> add_variable(const Declaration &d, Space space) {
    if (d.name == kDeviceRuntimeMarker) facts_.is_device_runtime = true;
    if (is_compiler_generated(d.name)) return {};
    CKPT_TRY(std::string name, names_.take(d.name));
    if (d.reference)
      facts_.references.push_back({std::move(name), *d.reference});
    else
      facts_.variables.push_back({std::move(name), d.managed ? Space::Managed : space, d.bytes()});
    return {};
  }

  PtxLexer lexer_;
  CodeFacts facts_;
  NameBudget names_;
  bool extern_ = false;
};

}  // namespace

Result<CodeFacts> facts_of_ptx(std::string_view ptx) { return PtxModule(ptx).read(); }

}  // namespace ckpt::fatbin
