// SPDX-License-Identifier: Apache-2.0
//
// From the parsed body of a function to its Code.
//
// isa::select finds the family that executes an instruction and the shape of its operands; the
// shape decides which member function turns the operands into rows. One PTX instruction may become
// several Ops: a special register is first copied into a row, and a register that is wider than the
// instruction's type is narrowed before it and widened after it. Branch targets are patched when
// all instructions have an index.
#pragma once

#include <map>
#include <optional>
#include <unordered_map>

#include "softcuda/isa/helpers.h"
#include "softcuda/isa/select.h"
#include "softcuda/vm/kernel.h"
#include "softcuda/vm/texture.h"

namespace ckpt::softcuda::vm {

// Bytes of one lane's cell in a row of this type.
inline size_t cell_bytes(ptx::Type t) {
  size_t bytes = ptx::size_of(t);
  return bytes > 4 ? bytes : 4;
}

// Decodes one function of a kernel into `code`.
Result<> decode(Kernel &kernel, const Symbol &function, Code &code);

// `o` itself if it is a vector, or else a vector of this one operand.
ptx::Operand as_vector(const ptx::Operand &o);

class Decoder {
 public:
  Decoder(Kernel &kernel, const Symbol &function, Code &code);
  Result<> run();

 private:
  // decoder.cc: the body and control flow
  Result<> instruction(const ptx::Instruction &in);
  Result<> shaped(const ptx::Instruction &in, const isa::Selected &s);
  Result<> branch(const ptx::Instruction &in, Op op);
  Result<> branch_table(const ptx::Instruction &in, Op op);
  Result<> call(const ptx::Instruction &in, Op op);
  Result<> callee(const ptx::Operand &o, CallSite &site, Op &op);
  Result<std::vector<Slot>> slots(const ptx::Instruction &in, const ptx::Operand &list);
  Result<> barrier(const ptx::Instruction &in, Op op, const isa::Selected &s);
  Result<> patch_branches();
  Op start(const ptx::Instruction &in, const isa::Selected &s);
  Failure error(const ptx::Instruction &in, std::string_view why) const;

  // operands.cc: registers and immediates as rows
  Result<> plain(const ptx::Instruction &in, Op op, const isa::Selected &s);
  Result<> move(const ptx::Instruction &in, Op op, const isa::Selected &s);
  Result<> pack(const ptx::Instruction &in, Op op, const isa::Selected &s);
  Result<> unpack(const ptx::Instruction &in, Op op, const isa::Selected &s);
  Result<> wide_move(const ptx::Instruction &in, Op op);
  Result<> destination(const ptx::Operand &o, ptx::Type type, u32 &row);
  Result<u32> source(const ptx::Operand &o, ptx::Type type);
  Result<> rows_of_list(const ptx::Operand &o, ptx::Type type, bool write, Op &op);

  // symbols.cc: names in operands
  Result<u32> symbol(const ptx::Operand &o, ptx::Type type);
  Result<u32> variable(const ptx::Variable &v, const Symbol *global, u64 addend, ptx::Type type);
  const ptx::Variable *find_variable(std::string_view name, const Symbol *&global) const;
  std::optional<u32> parameter_offset(std::string_view name) const;

  // addresses.cc: instructions that access memory
  Result<> access(const ptx::Instruction &in, Op op, const isa::Selected &s);
  Result<> atomic(const ptx::Instruction &in, Op op, const isa::Selected &s);
  Result<> copy(const ptx::Instruction &in, Op op);
  Result<> bulk(const ptx::Instruction &in, Op op, const isa::Selected &s);
  Result<> mbarrier(const ptx::Instruction &in, Op op, const isa::Selected &s);
  Result<> address(const ptx::Instruction &in, const ptx::Operand &o, ptx::Space space, Op &op);
  Result<> frame_or_parameter(const ptx::Operand &base, const isa::Selected &s, Op &op);

  // texture_operands.cc: instructions on textures and surfaces
  Result<> texture(const ptx::Instruction &in, Op op, const isa::Selected &s);
  Result<> detail(const ptx::Instruction &in, Geometry g);

  // matrices.cc: fragments of matrices
  Result<> matrix(const ptx::Instruction &in, Op op, const isa::Selected &s);
  Result<> matrix_access(const ptx::Instruction &in, Op op, const isa::Selected &s);
  Result<u32> fragment(const ptx::Operand &o, ptx::Type type, bool write);

  // Rows of the frame.
  u32 row(u32 reg);
  u32 frame_slot(const ptx::Variable &v);
  u32 new_row(size_t bytes);
  u32 constant(u64 value, size_t bytes);
  u32 emit(Op op);
  // Emits the Op, and after it those that widen its results.
  void emit_with_widening(Op op);

  Kernel &kernel_;
  const Symbol &symbol_;
  const ptx::Function &function_;
  Code &code_;
  const isa::Helpers &helpers_;
  ptx::Body body_;
  const ptx::Instruction *current_ = nullptr;
  u32 sites_ = 0;            // places in Warp::cache that were given to instructions
  std::vector<u32> starts_;  // of each instruction: its first Op
  std::vector<u32> rows_;    // of each register, or kNoRow
  std::map<std::pair<u64, size_t>, u32> constants_;
  std::unordered_map<const ptx::Variable *, u32> frame_;
  struct Fixup {
    size_t op;
    const ptx::Instruction *in;
    std::string_view label;
    std::optional<size_t> list;  // index in Code::lists; no value: Op::imm holds the target
  };
  std::vector<Fixup> fixups_;
  std::vector<Op> after_;  // widens the results of the current instruction
};

}  // namespace ckpt::softcuda::vm
