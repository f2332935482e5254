// SPDX-License-Identifier: Apache-2.0
//
// The references to other files in the text of a source. Conditions are not evaluated: another
// device may take another branch, so every branch counts.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ckpt::ocl {

struct Directives {
  std::vector<std::string> includes;  // names between "" or <>, also of __has_include
  std::vector<std::string> operands;  // of includes by macro: HEADER, STRING(name.h)
  std::vector<std::pair<std::string, std::string>> macros;  // names and bodies, also of -D
};

Directives read_directives(std::string_view text);

// The parts of build options that matter here.
struct SearchOptions {
  std::vector<std::string> folders;  // of -I, in order
  std::vector<std::pair<std::string, std::string>> macros;
};

SearchOptions read_options(std::string_view options);

// The names that an operand may stand for, given all bodies that each macro may have.
using MacroBodies = std::vector<std::pair<std::string, std::string>>;
std::vector<std::string> expand_operand(const std::string &operand, const MacroBodies &macros);

}  // namespace ckpt::ocl
