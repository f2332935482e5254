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

#include "ptx/lexer.h"

namespace ckpt::remote::cuda {
namespace {

using ptx::Lexer;
using ptx::Token;

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
  void insert(std::string_view text) { out_ += text; }

  Result<> body(std::string_view text) {
    size_t begin = ptx::offset_in(text_, text);
    copy_to(begin);
    size_t start = out_.size();
    most_ = 0;
    looks_up_ = false;
    Lexer lexer(text);
    for (Token t = lexer.next(); !t.is_end(); t = lexer.next()) CKPT_CHECK(statement(lexer, t));
    copy_to(begin + text.size());
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
  size_t offset(const Token &t) const { return ptx::offset_in(text_, t.text); }

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
  Result<> statement(Lexer &lexer, Token t) {
    if (t.is('{') || t.is('}')) return {};
    if (t.is(".loc") || t.is(".file")) return lexer.skip_line(), Result<>();
    bool declares = t.is_directive();
    size_t begin = offset(t), brackets = 0;
    Change c{.copied = begin};
    HandleUse use;
    for (; !t.is_end() && !t.is(';') && !(t.is(':') && brackets == 0); t = lexer.next()) {
      if (t.is('[')) ++brackets;
      if (t.is(']') && brackets > 0) --brackets;
      bool operand = use.is_operand(t);
      if (use.is_elsewhere(t) && handles_.bytes > 0)
        return fail("it has the instruction {} in a statement that cannot be read", t.text);
      if (operand)
        CKPT_CHECK(handle(t, use.guard(), c));
      else if (t.is_word())
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
    return std::ranges::any_of(module_.declared.variables, [&](const ptx::Variable &v) {
      return ptx::is_reference(v.type) && v.name == name;
    });
  }

  // A name that is no register is a reference of the module, which has the driver's handle.
  Result<> handle(const Token &t, const std::string &guard, Change &c) {
    if (handles_.bytes == 0) return {};
    bool is_register = t.is_word() && t.text[0] == '%';
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
  Lexer lexer(text);
  for (Token t = lexer.next(); !t.is_end(); t = lexer.next())
    if (t.is_word() && names.contains(t.text)) return true;
  return false;
}

// A declaration that names variables with an address, and what is left of it.
struct Declaration {
  ptx::Extent extent;
  std::string left;
};

// In the order of the text. One declaration may name several variables: `.global .u32 x, y;`.
std::vector<Declaration> changed_declarations(
    std::string_view ptx, const ModuleText &module,
    const std::unordered_map<std::string_view, u64> &addresses) {
  std::vector<Declaration> changed;
  const std::vector<ptx::Variable> &all = module.declared.variables;
  for (size_t i = 0, n; i < all.size(); i += n) {
    ptx::Extent extent = all[i].declaration;
    bool changes = false;
    std::string left;
    for (n = 0; i + n < all.size() && all[i + n].declaration.begin == extent.begin; ++n) {
      const ptx::Variable &v = all[i + n];
      bool removed = addresses.contains(v.name);
      changes |= removed;
      if (!removed) left += fmt::format("{}{}{}", left.empty() ? "" : ", ", v.name, v.definition);
    }
    size_t names_begin = ptx::offset_in(ptx, all[i].name);
    if (!left.empty())
      left = fmt::format("{}{};", ptx.substr(extent.begin, names_begin - extent.begin), left);
    if (changes) changed.push_back({extent, std::move(left)});
  }
  return changed;
}

}  // namespace

Result<std::string> with_addresses(std::string_view ptx, const ModuleText &module,
                                   const std::unordered_map<std::string_view, u64> &addresses,
                                   bool constants, HandleRange handles) {
  if (ptx.find(kReserved) != std::string_view::npos)
    return fail("it has names that begin with {}, which are reserved", kReserved);
  if (handles.bytes > 0 && module.textures && module.declared.own_samplers)
    return fail("its textures have samplers of their own (texmode_independent)");
  for (ptx::Extent e : module.declared.sections)
    if (names_any(ptx.substr(e.begin, e.end - e.begin), addresses))
      return fail("it has information for debuggers that names variables");
  // Declarations and bodies in the order of the text.
  std::vector<Declaration> changed = changed_declarations(ptx, module, addresses);
  Rewriter writer(ptx, module, addresses, constants, handles);
  auto next = changed.begin();
  auto change_before = [&](size_t at) {
    for (; next != changed.end() && next->extent.begin < at; ++next) {
      writer.copy_to(next->extent.begin);
      writer.insert(next->left);
      writer.skip_to(next->extent.end);
    }
  };
  for (const ptx::Function &f : module.declared.functions) {
    if (!f.defined) continue;
    change_before(f.begin);
    CKPT_CHECK(writer.body(f.body));
  }
  change_before(ptx.size());
  return writer.take();
}

}  // namespace ckpt::remote::cuda
