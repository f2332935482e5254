// SPDX-License-Identifier: Apache-2.0
//
// A module of PTX: its variables and functions (PTX ISA 9.0, chapters 5 and 11). Fat binaries,
// slicing, placed variables and the software device all read it here:
//
//   CKPT_TRY(ptx::Module module, ptx::read_module(text));
//   for (const ptx::Function &f : module.functions) Lexer(f.body) …
//
// Bodies are found, but not read, so a function that is never used costs little.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/base/result.h"
#include "ptx/declaration.h"

namespace ckpt::ptx {

inline constexpr size_t kMaxFunctions = 1u << 17;

// A kernel (.entry) or function (.func).
struct Function {
  std::string_view name;
  bool entry = false;
  bool external = false;  // .extern
  bool defined = false;   // it has a body
  // Its parameters, or the end of its body, cannot be read.
  bool unclear = false;
  std::vector<Variable> params;
  std::vector<Variable> results;
  size_t begin = 0;       // of its declaration in the text
  size_t params_end = 0;  // the ')' of the parameters; 0: it has no list
  std::string_view body;  // between the braces
  u32 body_line = 0;
  u32 max_threads = 0;  // the product of .maxntid; 0: not given
  u32 required_threads[3] = {0, 0, 0};
  u32 cluster[3] = {0, 0, 0};  // .reqnctapercluster
  bool for_clusters = false;   // it is declared for clusters of blocks
};

// All views point into the text that was read.
struct Module {
  std::string_view version;   // "8.3"
  std::string_view target;    // "sm_90a"
  size_t versions = 0;        // more than one: several modules, one behind the other
  bool own_samplers = false;  // texmode_independent: textures have samplers of their own
  size_t first = 0;           // where the first declaration behind the header begins
  std::vector<Variable> variables;
  std::vector<Function> functions;
  std::vector<Extent> sections;                                        // for debuggers
  std::vector<std::pair<std::string_view, std::string_view>> aliases;  // new name, old name
  // Why a declaration is missing here, or a function is unclear: the first reason. What follows
  // such a declaration is read all the same, as it may be of a later version of PTX.
  std::string problem;
};

// Any text, which ends at its first NUL. An error only if it is no PTX, or has too many
// declarations. Takes time and memory in proportion to the text.
Result<Module> read_module(std::string_view text);

}  // namespace ckpt::ptx
