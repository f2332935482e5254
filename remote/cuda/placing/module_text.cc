// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/placing/module_text.h"

#include <unordered_set>

#include "ptx/lexer.h"
#include "remote/cuda/placing/handle_use.h"

namespace ckpt::remote::cuda {
namespace {

using ptx::Lexer;
using ptx::Token;
using Names = std::unordered_set<std::string_view>;

void read_body(std::string_view body, const Names &functions, ModuleText &out) {
  Lexer lexer(body);
  bool moves = false;
  for (Token t = lexer.next(); !t.is_end(); t = lexer.next()) {
    if (t.is(';')) moves = false;
    if (!t.is_word()) continue;
    if (moves && functions.contains(t.text)) out.taken_function = t.text;
    if (t.text.starts_with("mov.")) moves = true;
    if (takes_handle(t.text)) out.textures = true;
  }
}

}  // namespace

std::vector<const ptx::Variable *> ModuleText::variables() const {
  std::vector<const ptx::Variable *> found;
  for (const ptx::Variable &v : declared.variables)
    if (v.space == ptx::Space::Global || v.space == ptx::Space::Const) found.push_back(&v);
  return found;
}

Result<ModuleText> read_module(std::string_view ptx) {
  ModuleText out;
  CKPT_TRY(out.declared, ptx::read_module(ptx));
  if (!out.declared.problem.empty()) return fail("{}", out.declared.problem);
  // As the software device's linker puts them together.
  if (out.declared.versions > 1) return fail("it is a text of several modules");
  Names functions;
  for (const ptx::Function &f : out.declared.functions) functions.insert(f.name);
  for (const ptx::Function &f : out.declared.functions) read_body(f.body, functions, out);
  return out;
}

}  // namespace ckpt::remote::cuda
