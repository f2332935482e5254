// SPDX-License-Identifier: Apache-2.0
#include "slicing/outline.h"

#include <algorithm>
#include <charconv>
#include <optional>

#include "ptx/lexer.h"

namespace ckpt::slicing {
namespace {

using ptx::Lexer;
using ptx::Token;

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

// Reads the instructions of one routine.
class Reader {
 public:
  Reader(std::string_view text, const ptx::Function &f) : text_(text), lexer_(f.body) {
    out_.declared = &f;
    if (f.for_clusters) out_.whole = "it is declared for clusters of blocks";
  }

  Routine read() {
    for (Token t = lexer_.next(); !t.is_end(); t = lexer_.next())
      if (t.is_word()) word(t);
    std::ranges::sort(out_.calls);
    out_.calls.erase(std::unique(out_.calls.begin(), out_.calls.end()), out_.calls.end());
    return std::move(out_);
  }

 private:
  void word(const Token &t) {
    if (t.text[0] == '%') return register_read(t);
    if (t.is("call") || t.is("call.uni")) return call();
    if (out_.whole == nullptr) out_.whole = whole_instruction(t.text);
    out_.may_wait |= may_wait(t.text);
  }

  void register_read(const Token &t) {
    if (out_.whole == nullptr) out_.whole = whole_register(t.text);
    if (std::optional<GridRead> read = grid_read(t.text)) {
      read->at = ptx::offset_in(text_, t.text);
      out_.reads.push_back(*read);
    }
  }

  // call (result), target, (arguments), prototype;
  void call() {
    Token t = lexer_.next();
    if (t.is('(')) {
      while (!t.is_end() && !t.is(')') && !t.is(';')) t = lexer_.next();
      while (t.is(')') || t.is(',')) t = lexer_.next();
    }
    if (!t.is_word()) return;
    if (t.text[0] == '%')
      out_.calls_pointer = true;
    else
      out_.calls.push_back(t.text);
  }

  std::string_view text_;
  Lexer lexer_;
  Routine out_;
};

// "8.3" is 83.
unsigned version_of(std::string_view text) {
  unsigned major = 0, minor = 0;
  const char *end = text.data() + text.size();
  auto [at, error] = std::from_chars(text.data(), end, major);
  if (at != end && *at == '.') std::from_chars(at + 1, end, minor);
  return std::min(major, 1000u) * 10 + std::min(minor, 9u);
}

// "sm_90a" is 90.
unsigned target_of(std::string_view text) {
  unsigned number = 0;
  std::from_chars(text.data() + 3, text.data() + text.size(), number);
  return number;
}

}  // namespace

Result<Outline> outline_of(std::string_view ptx, const ptx::Module &module) {
  Outline out{.version = version_of(module.version), .target = target_of(module.target)};
  for (const ptx::Function &f : module.functions) {
    if (f.unclear) return fail("the routine {} cannot be read: {}", f.name, module.problem);
    out.launches |= of_device_runtime(f.name);
    out.routines.push_back(Reader(ptx, f).read());
  }
  return out;
}

}  // namespace ckpt::slicing
