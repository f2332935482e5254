// SPDX-License-Identifier: Apache-2.0
#include "slicing/outline.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "fatbin/ptx_lexer.h"

namespace ckpt::slicing {
namespace {

using fatbin::PtxLexer;
using fatbin::Token;

// The device runtime, with which kernels launch kernels, and the grid barrier of cooperative
// groups before CUDA 11.
bool of_device_runtime(std::string_view name) {
  return name.starts_with("cudaLaunchDevice") || name.starts_with("cudaGetParameterBuffer") ||
         name.starts_with("__cudaCDP") || name.starts_with("cudaCG");
}

// Special registers of which a slice would show another value than the whole grid.
const char *whole_register(std::string_view word) {
  if (word == "%gridid") return "it reads %gridid, which differs for each slice";
  if (word == "%ctaid" || word == "%nctaid") return "it reads %ctaid or %nctaid as a vector";
  if (word.starts_with("%envreg"))
    return "it reads %envreg, with which cooperative groups wait for the whole grid";
  for (std::string_view name : {"%clusterid", "%nclusterid", "%cluster_", "%is_explicit_cluster"})
    if (word.starts_with(name)) return "it reads its place in a cluster of blocks";
  return nullptr;
}

const char *whole_instruction(std::string_view word) {
  if (word.starts_with("barrier.cluster")) return "it waits for a cluster of blocks";
  return nullptr;
}

const char *whole_directive(std::string_view word) {
  if (word == ".explicitcluster" || word == ".reqnctapercluster" || word == ".maxclusterrank")
    return "it is declared for clusters of blocks";
  return nullptr;
}

bool has_part(std::string_view word, std::string_view part) {
  return word.find(part) != std::string_view::npos;
}

// Instructions with which a thread can see what another block writes meanwhile. (Atomic operations
// on shared memory concern one block.)
bool may_wait(std::string_view word) {
  if (word.starts_with("membar.") || word.starts_with("fence.") || word.starts_with("nanosleep"))
    return true;
  if (has_part(word, ".shared")) return false;
  if (word.starts_with("atom.") || word.starts_with("red.")) return true;
  if (!word.starts_with("ld.")) return false;
  for (std::string_view part : {".volatile", ".relaxed", ".acquire", ".mmio", ".cv", ".cg"})
    if (has_part(word, part)) return true;
  return false;
}

std::optional<GridRead> grid_read(std::string_view word) {
  GridRead read;
  read.bytes = word.size();
  if (word.starts_with("%ctaid."))
    read.what = GridRegister::Block;
  else if (word.starts_with("%nctaid."))
    read.what = GridRegister::Blocks;
  else
    return {};
  std::string_view axis = word.substr(word.find('.') + 1);
  if (axis != "x" && axis != "y" && axis != "z") return {};  // .w is 0
  read.axis = static_cast<u8>(axis[0] - 'x');
  return read;
}

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text), lexer_(text) {}

  Result<Outline> read() {
    for (Token t = lexer_.next(); t.kind != Token::End; t = lexer_.next()) CKPT_CHECK(directive(t));
    if (out_.target == 0) return fail("there is no .target directive, so this is not PTX");
    if (!header_ended_) out_.first = text_.size();
    return std::move(out_);
  }

 private:
  size_t offset(const Token &t) const { return static_cast<size_t>(t.text.data() - text_.data()); }
  size_t end_of(const Token &t) const { return offset(t) + t.text.size(); }

  // `t` is the first token of a directive of the module.
  Result<> directive(Token t) {
    if (header(t)) return {};
    size_t begin = offset(t);
    if (!header_ended_) out_.first = begin;
    header_ended_ = true;
    if (t.is(".file") || t.is(".loc") || t.text.starts_with("@@")) {
      lexer_.line();
      return {};
    }
    bool section = t.is(".section");
    // Linkage (.visible, .weak, .extern, .common) stands in front.
    while (t.kind == Token::Word && !t.is(".entry") && !t.is(".func") && !t.is(';')) {
      if (!is_linkage(t)) break;
      t = lexer_.next();
    }
    if (t.is(".entry") || t.is(".func")) return routine(t.is(".entry"), begin);
    skip(t, section);
    return {};
  }

  static bool is_linkage(const Token &t) {
    return t.is(".visible") || t.is(".weak") || t.is(".extern") || t.is(".common");
  }

  bool header(const Token &t) {
    if (t.is(".version")) {
      out_.version = version(lexer_.line());
    } else if (t.is(".target")) {
      out_.target = target(lexer_.next().text);
      lexer_.line();
    } else if (t.is(".address_size")) {
      lexer_.line();
    } else {
      return false;
    }
    return true;
  }

  // " 8.3" is 83.
  static unsigned version(std::string_view line) {
    size_t digit = line.find_first_of("0123456789");
    if (digit == std::string_view::npos) return 0;
    line.remove_prefix(digit);
    unsigned major = 0, minor = 0;
    const char *end = line.data() + line.size();
    auto [at, error] = std::from_chars(line.data(), end, major);
    if (at != end && *at == '.') std::from_chars(at + 1, end, minor);
    return std::min(major, 1000u) * 10 + std::min(minor, 9u);
  }

  static unsigned target(std::string_view word) {
    unsigned number = 0;
    if (word.starts_with("sm_"))
      std::from_chars(word.data() + 3, word.data() + word.size(), number);
    return number;
  }

  // The rest of a directive: up to its ';', and for a section up to its '}'.
  void skip(Token t, bool section) {
    for (size_t depth = 0; t.kind != Token::End; t = lexer_.next()) {
      if (t.is('{')) ++depth;
      if (t.is('}') && depth > 0 && --depth == 0 && section) return;
      if (t.is(';') && depth == 0) return;
    }
  }

  Result<> routine(bool kernel, size_t begin) {
    if (out_.routines.size() == kMaxRoutines)
      return fail("it has more than {} kernels and functions", kMaxRoutines);
    Routine r;
    r.kernel = kernel;
    r.begin = begin;
    Token t = declaration(r);
    if (of_device_runtime(r.name)) out_.launches = true;
    if (t.is('{')) {
      r.has_body = true;
      r.body_begin = end_of(t);
      if (!body(r)) return fail("the body of {} has no end", r.name);
    }
    std::ranges::sort(r.calls);
    r.calls.erase(std::unique(r.calls.begin(), r.calls.end()), r.calls.end());
    if (!r.name.empty()) out_.routines.push_back(std::move(r));
    return {};
  }

  // .func (result) name (parameters) directives; returns the '{' or ';' behind it.
  Token declaration(Routine &r) {
    for (;;) {
      Token t = lexer_.next();
      if (t.kind == Token::End || t.is('{') || t.is(';')) return t;
      if (t.is('(')) list(r);
      if (t.kind != Token::Word) continue;
      if (r.whole == nullptr) r.whole = whole_directive(t.text);
      if (t.text[0] == '.' || !r.name.empty()) continue;
      r.name = t.text;
      r.name_end = end_of(t);
    }
  }

  // The opening parenthesis has been read.
  void list(Routine &r) {
    bool parameters = r.kernel && !r.name.empty() && r.list_end == 0;
    bool empty = true;
    for (size_t depth = 1;;) {
      Token t = lexer_.next();
      if (t.kind == Token::End) return;
      if (t.is('(')) ++depth;
      if (t.is(')') && --depth == 0) {
        if (parameters) r.list_end = offset(t), r.list_empty = empty;
        return;
      }
      empty = false;
    }
  }

  // The opening brace has been read. False: the text ends before the closing one.
  bool body(Routine &r) {
    for (size_t depth = 1; depth > 0;) {
      Token t = lexer_.next();
      if (t.kind == Token::End) return false;
      if (t.is('{')) ++depth;
      if (t.is('}')) --depth;
      if (t.kind == Token::Word) word(r, t);
    }
    return true;
  }

  void word(Routine &r, const Token &t) {
    if (t.text[0] == '%') return register_read(r, t);
    if (t.is("call") || t.is("call.uni")) return call(r);
    if (r.whole == nullptr) r.whole = whole_instruction(t.text);
    r.may_wait |= may_wait(t.text);
  }

  void register_read(Routine &r, const Token &t) {
    if (r.whole == nullptr) r.whole = whole_register(t.text);
    if (std::optional<GridRead> read = grid_read(t.text)) {
      read->at = offset(t);
      r.reads.push_back(*read);
    }
  }

  // call (result), target, (arguments), prototype;
  void call(Routine &r) {
    Token t = lexer_.next();
    if (t.is('(')) {
      while (t.kind != Token::End && !t.is(')') && !t.is(';')) t = lexer_.next();
      while (t.is(')') || t.is(',')) t = lexer_.next();
    }
    if (t.kind != Token::Word) return;
    if (t.text[0] == '%')
      r.calls_pointer = true;
    else
      r.calls.push_back(t.text);
  }

  std::string_view text_;
  PtxLexer lexer_;
  Outline out_;
  bool header_ended_ = false;
};

}  // namespace

Result<Outline> outline_of(std::string_view ptx) { return Reader(ptx).read(); }

}  // namespace ckpt::slicing
