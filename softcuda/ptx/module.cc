// SPDX-License-Identifier: Apache-2.0
//
// The parser of modules: everything outside of function bodies.
#include "softcuda/ptx/module.h"

#include <algorithm>

#include "softcuda/ptx/parser.h"

namespace ckpt::softcuda::ptx {
namespace {

class ModuleParser : Parser {
 public:
  ModuleParser(Module &module) : Parser(module.text), module_(module) {}

  Result<> parse() {
    while (token().kind != TokenKind::End) CKPT_CHECK(item());
    if (module_.target.empty()) return fail("this is not PTX: it has no .target directive");
    return {};
  }

 private:
  Result<> item() {
    if (token().kind != TokenKind::Word) return error("a directive is expected");
    Token word = advance();
    if (word.is(".version")) return version();
    if (word.is(".address_size")) return address_size();
    if (word.is(".target")) return target();
    if (word.is(".file")) return file();
    if (word.is(".section")) return section();
    if (word.is(".pragma")) return skip_to(";");
    if (word.is(".alias")) return alias();
    if (word.is(".loc")) return skip_line(word.line);
    return linked(word);
  }

  Result<> version() {
    module_.version = advance().text;
    return {};
  }

  Result<> address_size() {
    CKPT_TRY(u64 bits, integer());
    if (bits != 64) return fail("PTX with {}-bit addresses is not supported", bits);
    return {};
  }

  Result<> target() {
    module_.target = advance().text;
    while (accept(",")) advance();
    return {};
  }

  // .file index "name" [, timestamp, size]
  Result<> file() {
    CKPT_CHECK(integer());
    advance();
    while (accept(",")) CKPT_CHECK(integer());
    return {};
  }

  Result<> section() {
    advance();
    CKPT_CHECK(expect("{"));
    if (!lexer_.skip_block()) return error("'}' is expected");
    advance();
    return {};
  }

  Result<> skip_to(std::string_view end) {
    while (!token().is(end) && token().kind != TokenKind::End) advance();
    return expect(end);
  }

  Result<> skip_line(u32 line) {
    while (token().line == line && token().kind != TokenKind::End) advance();
    return {};
  }

  Result<> alias() {
    std::string_view name = advance().text;
    CKPT_CHECK(expect(","));
    module_.aliases.emplace_back(name, advance().text);
    return expect(";");
  }

  // [.extern|.visible|.weak|.common], then a function or a variable.
  Result<> linked(Token word) {
    bool external = false;
    while (word.is(".extern") || word.is(".visible") || word.is(".weak") || word.is(".common")) {
      external |= word.is(".extern");
      word = advance();
    }
    if (word.is(".entry") || word.is(".func")) return function(word.is(".entry"));
    std::optional<Space> space = space_named(word.text);
    if (!space) return error(fmt::format("the directive '{}' is not supported", word.text));
    do {
      CKPT_TRY(Variable v, declaration(*space));
      v.external = external;
      module_.variables.push_back(std::move(v));
    } while (accept(","));
    return expect(";");
  }

  Result<> parameters(std::vector<Variable> &out) {
    CKPT_CHECK(expect("("));
    while (!accept(")")) {
      std::optional<Space> space = space_named(advance().text);
      if (!space) return error("a parameter is expected");
      CKPT_TRY(Variable v, declaration(*space));
      out.push_back(std::move(v));
      if (!token().is(")")) CKPT_CHECK(expect(","));
    }
    return {};
  }

  Result<> function(bool entry) {
    Function f;
    f.entry = entry;
    while (token().is(".attribute")) CKPT_CHECK(skip_to(")"));
    if (token().is("(")) CKPT_CHECK(parameters(f.results));
    if (token().kind != TokenKind::Word) return error("a function's name is expected");
    f.name = advance().text;
    if (token().is("(")) CKPT_CHECK(parameters(f.params));
    CKPT_CHECK(attributes(f));
    if (token().is("{")) {
      CKPT_CHECK(take_body(f));
    } else {
      CKPT_CHECK(expect(";"));
    }
    module_.functions.push_back(std::move(f));
    return {};
  }

  // .maxntid 256, 1, 1 .minnctapersm 2 .noreturn … up to the body.
  Result<> attributes(Function &f) {
    while (token().kind == TokenKind::Word && token().text.starts_with('.')) {
      Token word = advance();
      u64 n[3] = {1, 1, 1};
      for (size_t i = 0; token().kind == TokenKind::Number; ++i) {
        CKPT_TRY(n[std::min<size_t>(i, 2)], integer());
        if (!accept(",")) break;
      }
      if (token().kind == TokenKind::String) CKPT_CHECK(skip_to(";"));
      if (word.is(".maxntid") || word.is(".reqntid"))
        f.max_threads = static_cast<u32>(std::min<u64>(n[0] * n[1] * n[2], 1024));
      if (word.is(".reqntid"))
        for (size_t i = 0; i < 3; ++i) f.required_threads[i] = static_cast<u32>(n[i]);
      if (word.is(".reqnctapercluster"))
        for (size_t i = 0; i < 3; ++i) f.cluster[i] = static_cast<u32>(n[i]);
    }
    return {};
  }

  // The parser's look-ahead is the brace, so the lexer is at the beginning of the body.
  Result<> take_body(Function &f) {
    f.defined = true;
    f.body_line = token().line;
    size_t begin = lexer_.position();
    if (!lexer_.skip_block()) return error("the '}' of a function is missing");
    f.body = std::string_view(module_.text).substr(begin, lexer_.position() - begin);
    advance();
    return {};
  }

  Module &module_;
};

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

Result<std::unique_ptr<Module>> parse_module(std::string text) {
  auto module = std::make_unique<Module>();
  text.resize(std::min(text.find('\0'), text.size()));
  module->text = std::move(text);
  CKPT_CHECK(ModuleParser(*module).parse());
  return module;
}

}  // namespace ckpt::softcuda::ptx
