// SPDX-License-Identifier: Apache-2.0
//
// A SPIR-V module as a list of instructions, from untrusted bytes.
#pragma once

#include <algorithm>
#include <span>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::slicing {

// Codes of the SPIR-V specification that the pass uses (unified1, section 3).
enum class SpirvOp : u16 {
  SourceContinued = 2,
  Source = 3,
  SourceExtension = 4,
  Name = 5,
  MemberName = 6,
  String = 7,
  Line = 8,
  Extension = 10,
  ExtInstImport = 11,
  ExtInst = 12,
  MemoryModel = 14,
  EntryPoint = 15,
  ExecutionMode = 16,
  Capability = 17,
  TypeInt = 21,
  TypeVector = 23,
  TypePointer = 32,
  Constant = 43,
  ConstantComposite = 44,
  SpecConstantOp = 52,
  Function = 54,
  Variable = 59,
  Load = 61,
  Store = 62,
  CopyMemory = 63,
  CopyMemorySized = 64,
  AccessChain = 65,
  InBoundsAccessChain = 66,
  Decorate = 71,
  MemberDecorate = 72,
  DecorationGroup = 73,
  GroupDecorate = 74,
  GroupMemberDecorate = 75,
  VectorExtractDynamic = 77,
  VectorShuffle = 79,
  CompositeExtract = 81,
  CompositeInsert = 82,
  CopyObject = 83,
  IAdd = 128,
  ISub = 130,
  IMul = 132,
  UDiv = 134,
  ShiftRightLogical = 194,
  ShiftLeftLogical = 196,
  BitwiseAnd = 199,
  ControlBarrier = 224,
  MemoryBarrier = 225,
  AtomicLoad = 227,
  AtomicXor = 242,
  LoopMerge = 246,
  SelectionMerge = 247,
  Label = 248,
  Branch = 249,
  BranchConditional = 250,
  Switch = 251,
  ReadPipe = 274,
  GroupCommitWritePipe = 288,
  AtomicFlagTestAndSet = 318,
  AtomicFlagClear = 319,
  MemoryNamedBarrier = 329,
  ModuleProcessed = 330,
  ExecutionModeId = 331,
  DecorateId = 332,
  FirstOfVendors = 4416,  // from here on operations of extensions
  DecorateString = 5632,
  MemberDecorateString = 5633,
};

inline constexpr u32 kInput = 1;  // storage class of the built-in variables

struct SpirvInstruction {
  SpirvOp op{};
  std::span<const u32> words;  // the first has the code and the number of words; never empty

  // 0 behind the end.
  u32 word(size_t n) const { return n < words.size() ? words[n] : 0; }
  // The words from the n-th on.
  std::span<const u32> from(size_t n) const { return words.subspan(std::min(n, words.size())); }
};

// The words keep their place if the module is moved; it cannot be copied.
class SpirvModule {
 public:
  static constexpr u32 kMagic = 0x07230203;
  static constexpr size_t kHeaderWords = 5;
  static constexpr u32 kMostIds = 4'194'303;  // section 2.17, universal limits
  static constexpr size_t kMostBytes = size_t{256} << 20;

  // Fails if the bytes are no module of this machine's byte order, or an instruction exceeds them.
  static Result<SpirvModule> parse(ByteView bytes);
  SpirvModule(SpirvModule &&) = default;
  SpirvModule &operator=(SpirvModule &&) = default;

  std::span<const u32> header() const { return std::span(words_).first(kHeaderWords); }
  u32 bound() const { return words_[3]; }  // all ids are smaller
  const std::vector<SpirvInstruction> &instructions() const { return instructions_; }

 private:
  SpirvModule() = default;
  std::vector<u32> words_;
  std::vector<SpirvInstruction> instructions_;
};

}  // namespace ckpt::slicing
