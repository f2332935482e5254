// SPDX-License-Identifier: Apache-2.0
//
// The instructions of a function. They remain text until parse_body(), so a function that is never
// used costs nothing and cannot cause an error.
#pragma once

#include <string_view>
#include <vector>

#include "common/base/result.h"
#include "ptx/module.h"

namespace ckpt::softcuda::ptx {

// What the one reader of modules knows, beside the statements that this device runs.
using namespace ckpt::ptx;

enum class OperandKind : u8 {
  Register,  // `index`
  Integer,   // `bits`
  Float,     // `bits` is an f32
  Double,    // `bits` is an f64
  Symbol,    // `text`: variable, function, label or special register; `bits` is added to it
  Address,   // [inner + bits]
  Vector,    // {inner…}
  List,      // (inner…) of a call
  Sink,      // _
};

struct Operand {
  OperandKind kind = OperandKind::Sink;
  bool negated = false;  // !%p, or -%r of vmad
  u32 index = 0;
  u64 bits = 0;
  std::string_view text;
  std::vector<Operand> inner;
  std::vector<Operand> second;  // the q of %p|%q, if any
  std::string_view part;        // of a video instruction: the "b0" of %r.b0
};

struct Instruction {
  std::string_view name;                    // "ld.global.v2.u32"
  std::string_view opcode;                  // "ld"
  std::vector<std::string_view> modifiers;  // "global", "v2", "u32"
  bool guarded = false;
  bool guard_negated = false;
  u32 guard = 0;  // a register
  std::vector<Operand> operands;
  u32 line = 0;
  u32 scope = 0;  // of its labels and variables

  bool has(std::string_view modifier) const;
  // The state space among the modifiers, or Generic.
  Space space() const;
  // The n-th modifier that is a type, or None.
  Type type(size_t n = 0) const;
};

struct Label {
  std::string_view name;
  u32 scope = 0;
  u32 target = 0;                         // index of an instruction
  std::vector<std::string_view> targets;  // if it is a `.branchtargets` or `.calltargets` list
};

struct Register {
  std::string_view name;
  Type type = Type::None;
};

// The body of a function. scopes[i] is the parent of scope i; scope 0 is the whole body.
struct Body {
  std::vector<Register> registers;
  std::vector<Variable> variables;  // .local, .shared and .param inside the body
  std::vector<u32> variable_scopes;
  std::vector<Instruction> code;
  std::vector<Label> labels;
  std::vector<u32> scopes{0};

  const Label *label(std::string_view name, u32 scope) const;
  const Variable *variable(std::string_view name, u32 scope) const;
};

// Errors name the line.
Result<Body> parse_body(const Function &function);

}  // namespace ckpt::softcuda::ptx
