// SPDX-License-Identifier: Apache-2.0
//
// Which instructions take the handle of a texture or surface object (PTX ISA, sections "Texture
// Instructions" and "Surface Instructions"), and where in the instruction it stands.
#pragma once

#include <string>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "ptx/lexer.h"

namespace ckpt::remote::cuda {

// Device addresses of which the program has some as handles, in place of the driver's handles.
// There the driver's handle is found. No bytes: handles are the driver's.
struct HandleRange {
  u64 base = 0, bytes = 0;
};

// Of a word that begins an instruction.
bool takes_handle(std::string_view opcode);

// Follows the tokens of one statement.
class HandleUse {
 public:
  // True: the token is the operand with the handle.
  bool is_operand(const ptx::Token &t);
  // Behind is_operand(): the token is such an instruction, but does not begin one.
  bool is_elsewhere(const ptx::Token &t) const;
  // The predicate in front of the instruction, as "%p1" or "!%p1"; "" if there is none.
  const std::string &guard() const { return guard_; }
  // The instruction takes a handle, and all its tokens had none: istypep has it elsewhere.
  bool lacks_operand() const { return state_ == State::Brackets || state_ == State::Operand; }

 private:
  enum class State : u8 { Begin, Guard, Brackets, Operand, Other };
  State state_ = State::Begin;
  std::string guard_;
};

// Instructions that leave the driver's handle in `to`. `predicate` and `offset` are registers for
// them alone.
std::string look_up(HandleRange range, std::string_view handle, std::string_view guard,
                    std::string_view to, std::string_view offset, std::string_view predicate);

}  // namespace ckpt::remote::cuda
