// SPDX-License-Identifier: Apache-2.0
#include "ptx/module.h"

#include <algorithm>

#include "ptx/parser.h"

namespace ckpt::ptx {
namespace {

constexpr size_t kMaxParameters = 1u << 16;  // of one function
constexpr size_t kMaxTarget = 16;            // characters

class ModuleReader : Parser {
 public:
  explicit ModuleReader(std::string_view text) : Parser(text), text_(text) {}

  Result<Module> read() {
    while (!token().is_end()) {
      if (Result<> r = item(); !r) {
        note(r.error());
        skip_declaration();
      }
      if (full_ || declarations() > kMaxVariables || out_.functions.size() > kMaxFunctions)
        return fail("it has more than {} variables, or {} functions", kMaxVariables, kMaxFunctions);
    }
    if (out_.target.empty()) return fail("there is no .target directive, so this is not PTX");
    if (in_header_) out_.first = text_.size();
    return std::move(out_);
  }

 private:
  size_t declarations() const {
    return parameters_ + out_.variables.size() + out_.sections.size() + out_.aliases.size();
  }

  void note(const Error &e) {
    if (out_.problem.empty()) out_.problem = e.what;
  }

  // Past the ';' or the block that ends the declaration.
  void skip_declaration() {
    for (; !token().is_end(); advance()) {
      if (accept(';')) return;
      if (!token().is('{')) continue;
      (void)lexer_.skip_block();
      advance();
      return;
    }
  }

  size_t here() const { return offset_in(text_, token().text); }

  Result<> item() {
    size_t begin = here();
    if (token().is('@')) return skip_line(token().line), Result<>();  // @@DWARF
    if (!token().is_word()) return error("a directive is expected");
    Token word = advance();
    if (word.is(".version")) return version();
    if (word.is(".address_size")) return address_size();
    if (word.is(".target")) return target();
    if (std::exchange(in_header_, false)) out_.first = begin;
    if (word.is(".file")) return file();
    if (word.is(".loc")) return skip_line(word.line), Result<>();
    if (word.is(".section")) return section();
    if (word.is(".pragma")) return pragma();
    if (word.is(".alias")) return alias();
    return linked(word, begin);
  }

  Result<> version() {
    ++out_.versions;
    out_.version = advance().text;
    return {};
  }

  Result<> address_size() {
    CKPT_TRY(u64 bits, count());
    if (bits != 64) return fail("PTX with {}-bit addresses is not supported", bits);
    return {};
  }

  Result<> target() {
    std::string_view name = advance().text;
    if (name.starts_with("sm_") && name.size() < kMaxTarget && out_.target.empty())
      out_.target = name;
    for (; accept(','); advance()) out_.own_samplers |= token().is("texmode_independent");
    return {};
  }

  // .file index "name" [, timestamp, size]
  Result<> file() {
    CKPT_CHECK(count());
    advance();
    while (accept(',')) CKPT_CHECK(count());
    return {};
  }

  Result<> section() {
    advance();
    size_t begin = here();
    if (!token().is('{')) return error("'{' is expected");
    if (!lexer_.skip_block()) return error("the '}' of a section is missing");
    advance();
    out_.sections.push_back({begin, here()});
    return {};
  }

  Result<> pragma() {
    while (!token().is(';') && !token().is_end()) advance();
    return expect(';');
  }

  Result<> alias() {
    std::string_view name = advance().text;
    CKPT_CHECK(expect(','));
    out_.aliases.emplace_back(name, advance().text);
    return expect(';');
  }

  // [.extern|.visible|.weak|.common], then a function or a variable.
  Result<> linked(Token word, size_t begin) {
    bool external = false, hidden = true;
    while (word.is(".extern") || word.is(".visible") || word.is(".weak") || word.is(".common")) {
      external |= word.is(".extern");
      hidden = false;
      word = advance();
    }
    if (word.is(".entry") || word.is(".func"))
      return function({.entry = word.is(".entry"), .external = external, .begin = begin});
    std::optional<Space> space = space_named(word.text);
    if (!space || !word.is_directive())
      return fail("PTX line {}: the directive {} is not supported", word.line,
                  word.text.substr(0, 40));
    return variables({.space = *space, .external = external, .hidden = hidden}, begin);
  }

  Result<> variables(const Variable &v, size_t begin) {
    size_t known = out_.variables.size();
    if (Result<> r = declaration(v, out_.variables); !r) {
      full_ = out_.variables.size() >= kMaxVariables;
      out_.variables.resize(known);
      return r;
    }
    size_t end = static_cast<size_t>(behind() - text_.data());
    for (size_t i = known; i < out_.variables.size(); ++i)
      out_.variables[i].declaration = {begin, end};
    return {};
  }

  Result<> function(Function f) {
    if (Result<> r = signature(f); !r) {
      f.unclear = true;
      note(r.error());
      while (!token().is('{') && !token().is(';') && !token().is_end()) advance();
    }
    Result<> r = token().is('{') ? take_body(f) : expect(';');
    f.unclear |= !r;
    parameters_ += f.params.size() + f.results.size();
    if (!f.name.empty()) out_.functions.push_back(std::move(f));
    return r;
  }

  Result<> signature(Function &f) {
    for (bool managed = false; accept(".attribute");) CKPT_CHECK(attribute(managed));
    if (accept('(')) CKPT_CHECK(parameters(f, f.results));
    if (!token().is_word() || token().is_directive()) return error("a function's name is expected");
    f.name = advance().text;
    if (accept('(')) {
      CKPT_CHECK(parameters(f, f.params));
      f.params_end = params_end_;
    }
    return properties(f);
  }

  // The '(' has been read. Variadic functions have a last parameter without a size.
  Result<> parameters(const Function &f, std::vector<Variable> &out) {
    for (bool more = !token().is(')'); more; more = accept(',')) {
      std::optional<Space> space = space_named(token().text);
      if (!space || !token().is_directive()) return error("a parameter is expected");
      advance();
      Variable v{.space = *space};
      CKPT_CHECK(qualifiers(v));
      CKPT_CHECK(declarator(v, !f.entry));
      if (out.size() == kMaxParameters) return error("there are too many parameters");
      out.push_back(v);
    }
    params_end_ = here();
    return expect(')');
  }

  // .maxntid 256, 1, 1 .minnctapersm 2 .noreturn … up to the body.
  Result<> properties(Function &f) {
    while (token().is_directive()) {
      Token word = advance();
      u64 n[3] = {1, 1, 1};
      for (size_t i = 0; token().kind == TokenKind::Number; ++i) {
        CKPT_TRY(n[std::min<size_t>(i, 2)], count());
        if (!accept(',')) break;
      }
      if (token().kind == TokenKind::String) CKPT_CHECK(pragma());
      property(f, word, n);
    }
    return {};
  }

  static void property(Function &f, const Token &word, const u64 (&n)[3]) {
    if (word.is(".maxntid") || word.is(".reqntid"))
      f.max_threads = static_cast<u32>(std::min<u64>(n[0] * n[1] * n[2], 1024));
    f.for_clusters |=
        word.is(".explicitcluster") || word.is(".reqnctapercluster") || word.is(".maxclusterrank");
    for (size_t i = 0; i < 3; ++i) {
      if (word.is(".reqntid")) f.required_threads[i] = static_cast<u32>(n[i]);
      if (word.is(".reqnctapercluster")) f.cluster[i] = static_cast<u32>(n[i]);
    }
  }

  // The parser's look-ahead is the brace, so the lexer is at the beginning of the body.
  Result<> take_body(Function &f) {
    f.defined = true;
    f.body_line = token().line;
    const char *begin = lexer_.position();
    bool ends = lexer_.skip_block();
    f.body = {begin, static_cast<size_t>(lexer_.position() - begin) - ends};
    advance();
    return ends ? Result<>() : error(fmt::format("the '}}' of {} is missing", f.name));
  }

  std::string_view text_;
  Module out_;
  bool in_header_ = true;
  bool full_ = false;  // one declaration names more variables than are allowed
  size_t parameters_ = 0;
  size_t params_end_ = 0;  // of the last list
};

}  // namespace

Result<Module> read_module(std::string_view text) {
  return ModuleReader(text.substr(0, text.find('\0'))).read();
}

}  // namespace ckpt::ptx
