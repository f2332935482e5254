// SPDX-License-Identifier: Apache-2.0
//
// The problem. A driver decides where the variables of a module lie, and kernels may store such an
// address in memory. On another server, the driver decides again. Memory of the arena has the same
// addresses everywhere, so the variables are put there, and the code names addresses instead of
// variables.
//
// Example. The variable `sum`, at the address 139637976727552:
//
//   .global .align 4 .u32 sum;
//   ...                                     .reg .b64 %ckpt_place<1>;
//   mov.u64 %rd1, sum;                      mov.u64 %rd1, 139637976727552;
//   @%p1 st.global.u32 [sum+4], %r1;        mov.u64 %ckpt_place0, 139637976727552;
//                                           @%p1 st.global.u32 [%ckpt_place0+4], %r1;
//
// An address in brackets goes through a register, since an immediate one has 32 bits only (PTX ISA,
// section 6.4.1). A constant becomes global memory that kernels read through the cache for data
// that does not change: ld.const becomes ld.global.nc. Handles of texture and surface objects are
// looked up in the same pass (handle_use.cc).
//
// The algorithm. The text is read once, statement by statement; everything that names no such
// variable is copied. What is not understood is an error, and the code is then loaded as it is.
//
// Cost. Linear in the text. An access by name needs one instruction more, which ptxas usually
// shares; constants in global memory may be slower. Neither was measured on a GPU.
#include "remote/cuda/placing/fixed_text.h"

#include <fmt/format.h>

#include <algorithm>

#include "fatbin/ptx_lexer.h"

namespace ckpt::remote::cuda {
namespace {

using fatbin::PtxLexer;
using fatbin::Token;

constexpr std::string_view kReserved = "ckpt_place";
// Registers for a handle that is looked up.
constexpr std::string_view kHandle = "%ckpt_place_h", kOffset = "%ckpt_place_o",
                           kInRange = "%ckpt_place_q";

class Rewriter {
 public:
  Rewriter(std::string_view text, const ModuleText &module,
           const std::unordered_map<std::string_view, u64> &addresses, bool constants,
           HandleRange handles)
      : text_(text),
        module_(module),
        addresses_(addresses),
        constants_(constants),
        handles_(handles) {}

  // Copies up to `at`.
  void copy_to(size_t at) {
    out_ += text_.substr(done_, at - done_);
    done_ = at;
  }
  void skip_to(size_t at) { done_ = at; }

  Result<> body(size_t begin, size_t end) {
    copy_to(begin);
    size_t start = out_.size();
    most_ = 0;
    looks_up_ = false;
    PtxLexer lexer(text_.substr(begin, end - begin));
    for (Token t = lexer.next(); t.kind != Token::End; t = lexer.next())
      CKPT_CHECK(statement(lexer, t));
    copy_to(end);
    std::string registers;
    if (most_ > 0) registers = fmt::format("\n\t.reg .b64 %{}<{}>;", kReserved, most_);
    if (looks_up_)
      registers +=
          fmt::format("\n\t.reg .b64 {}, {};\n\t.reg .pred {};", kHandle, kOffset, kInRange);
    out_.insert(start, registers);
    return {};
  }

  std::string take() {
    copy_to(text_.size());
    return std::move(out_);
  }

 private:
  size_t offset(const Token &t) const { return static_cast<size_t>(t.text.data() - text_.data()); }

  // What a statement becomes.
  struct Change {
    std::string loads;  // in front of it
    std::string text;   // up to `copied`
    size_t copied;
    unsigned registers = 0;
  };

  void replace(Change &c, const Token &what, std::string_view by) const {
    c.text += text_.substr(c.copied, offset(what) - c.copied);
    c.text += by;
    c.copied = offset(what) + what.text.size();
  }

  // `t` is its first token. A brace or a label is a statement of its own here.
  Result<> statement(PtxLexer &lexer, Token t) {
    if (t.is('{') || t.is('}')) return {};
    if (t.is(".loc") || t.is(".file")) return lexer.line(), Result<>();
    bool declares = t.kind == Token::Word && t.text[0] == '.';
    size_t begin = offset(t), brackets = 0;
    Change c{.copied = begin};
    HandleUse use;
    for (; t.kind != Token::End && !t.is(';') && !(t.is(':') && brackets == 0); t = lexer.next()) {
      if (t.is('[')) ++brackets;
      if (t.is(']') && brackets > 0) --brackets;
      bool operand = use.is_operand(t);
      if (use.is_elsewhere(t) && handles_.bytes > 0)
        return fail("it has the instruction {} in a statement that cannot be read", t.text);
      if (operand)
        CKPT_CHECK(handle(t, use.guard(), c));
      else if (t.kind == Token::Word)
        CKPT_CHECK(word(t, brackets > 0, declares, c));
    }
    if (use.lacks_operand() && handles_.bytes > 0) return fail("it has the instruction istypep");
    most_ = std::max(most_, c.registers);
    if (c.copied == begin) return {};
    copy_to(begin);
    out_ += c.loads + c.text;
    skip_to(c.copied);
    return {};
  }

  Result<> word(const Token &t, bool in_brackets, bool declares, Change &c) const {
    if (constants_ && names_constants(t.text)) {
      CKPT_TRY(std::string other, of_global(t.text));
      replace(c, t, other);
    }
    auto found = addresses_.find(t.text);
    if (found == addresses_.end()) return {};
    if (declares) return fail("a routine declares another {}", t.text);
    if (!in_brackets) return replace(c, t, std::to_string(found->second)), Result<>();
    std::string name = fmt::format("%{}{}", kReserved, c.registers++);
    c.loads += fmt::format("mov.u64 {}, {};\n\t", name, found->second);
    replace(c, t, name);
    return {};
  }

  bool is_reference(std::string_view name) const {
    return std::ranges::any_of(module_.variables, [&](const DeclaredVariable &v) {
      return v.reference && v.name == name;
    });
  }

  // A name that is no register is a reference of the module, which has the driver's handle.
  Result<> handle(const Token &t, const std::string &guard, Change &c) {
    if (handles_.bytes == 0) return {};
    bool is_register = t.kind == Token::Word && t.text[0] == '%';
    if (!is_register && is_reference(t.text)) return {};
    if (!is_register)
      return fail("an instruction for textures names {}, which is no register", t.text);
    c.loads += look_up(handles_, t.text, guard, kHandle, kOffset, kInRange);
    replace(c, t, kHandle);
    looks_up_ = true;
    return {};
  }

  static bool names_constants(std::string_view word) {
    return word.find(".const") != std::string_view::npos;
  }

  // The same instruction on global memory.
  static Result<std::string> of_global(std::string_view word) {
    constexpr std::string_view kLoad = "ld.const";
    if (word.starts_with(kLoad)) return "ld.global.nc" + std::string(word.substr(kLoad.size()));
    if (word.starts_with("cvta.const") || word.starts_with("cvta.to.const")) {
      std::string out(word);
      return out.replace(out.find(".const"), 6, ".global");
    }
    return fail("it has the instruction {} on constants", word);
  }

  std::string_view text_;
  const ModuleText &module_;
  const std::unordered_map<std::string_view, u64> &addresses_;
  bool constants_;
  HandleRange handles_;
  std::string out_;
  size_t done_ = 0;        // of the text
  unsigned most_ = 0;      // registers that a statement of the body needs
  bool looks_up_ = false;  // the body looks up handles
};

bool names_any(std::string_view text, const std::unordered_map<std::string_view, u64> &names) {
  PtxLexer lexer(text);
  for (Token t = lexer.next(); t.kind != Token::End; t = lexer.next())
    if (names.contains(t.text)) return true;
  return false;
}

}  // namespace

Result<std::string> with_addresses(std::string_view ptx, const ModuleText &module,
                                   const std::unordered_map<std::string_view, u64> &addresses,
                                   bool constants, HandleRange handles) {
  if (ptx.find(kReserved) != std::string_view::npos)
    return fail("it has names that begin with {}, which are reserved", kReserved);
  if (handles.bytes > 0 && module.textures && module.samplers)
    return fail("its textures have samplers of their own (texmode_independent)");
  for (Extent e : module.sections)
    if (names_any(ptx.substr(e.begin, e.end - e.begin), addresses))
      return fail("it has information for debuggers that names variables");
  // Declarations and bodies in the order of the text.
  std::vector<std::pair<size_t, const DeclaredVariable *>> declared;
  for (const DeclaredVariable &v : module.variables)
    if (addresses.contains(v.name)) declared.emplace_back(v.begin, &v);
  Rewriter writer(ptx, module, addresses, constants, handles);
  auto next = declared.begin();
  auto remove_before = [&](size_t at) {
    for (; next != declared.end() && next->first < at; ++next) {
      writer.copy_to(next->first);
      writer.skip_to(next->second->end);
    }
  };
  for (auto [begin, end] : module.bodies) {
    remove_before(begin);
    CKPT_CHECK(writer.body(begin, end));
  }
  remove_before(ptx.size());
  return writer.take();
}

}  // namespace ckpt::remote::cuda
