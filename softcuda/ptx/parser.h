// SPDX-License-Identifier: Apache-2.0
//
// The common base of the parsers for modules and bodies: one token of look-ahead, numbers,
// declarations.
#pragma once

#include <string>
#include <vector>

#include "softcuda/ptx/lexer.h"
#include "softcuda/ptx/module.h"

namespace ckpt::softcuda::ptx {

// Limits, because PTX may come from an untrusted file.
inline constexpr u64 kMaxVariableBytes = 1ull << 40;
inline constexpr u32 kMaxRegisters = 1u << 20;

class Parser {
 public:
  explicit Parser(std::string_view text, u32 line = 1) : lexer_(text, line) { advance(); }

 protected:
  const Token &token() const { return token_; }
  Token advance();
  bool accept(std::string_view text);
  Result<> expect(std::string_view text);
  Failure error(std::string_view why) const;

  // A number with an optional sign: integer, 0f… or 0d….
  Result<Initial> number();
  Result<u64> integer();
  // A declaration after its state space, up to ';' or ',': `.align 4 .b8 name[16] = {…}`.
  Result<Variable> declaration(Space space);

  Lexer lexer_;

 private:
  Result<> array_size(Variable &v);
  Result<> initialiser(Variable &v);
  Result<Initial> initial_element();

  Token token_;
};

}  // namespace ckpt::softcuda::ptx
