// SPDX-License-Identifier: Apache-2.0
//
// Operands are not described in full: a word that could be a use of a built-in variable counts as
// one, unless it is known to be a literal. A mistake makes a kernel run whole, and not wrong.
#include "slicing/spirv_survey.h"

#include <array>

namespace ckpt::slicing {
namespace {

using enum SpirvOp;

constexpr u32 kPhysical64 = 2, kDeviceEnqueue = 19;           // addressing model, capability
constexpr u32 kBuiltIn = 11, kVolatile = 21, kCoherent = 23;  // decorations
constexpr u32 kCrossWorkgroup = 5;                            // storage class
constexpr u32 kVolatileAccess = 1;                            // memory operands
constexpr u32 kGlobalFence = 0x200;                           // memory semantics: CrossWorkgroup

constexpr std::array kPreamble = {SourceContinued,
                                  Source,
                                  SourceExtension,
                                  Name,
                                  MemberName,
                                  String,
                                  Extension,
                                  ExtInstImport,
                                  MemoryModel,
                                  EntryPoint,
                                  ExecutionMode,
                                  Capability,
                                  Decorate,
                                  MemberDecorate,
                                  DecorationGroup,
                                  GroupDecorate,
                                  ModuleProcessed,
                                  ExecutionModeId,
                                  DecorateId,
                                  DecorateString,
                                  GroupMemberDecorate,
                                  MemberDecorateString};

constexpr std::array kChanged = {
    BuiltIn::NumWorkgroups, BuiltIn::WorkgroupId,  BuiltIn::GlobalInvocationId, BuiltIn::WorkDim,
    BuiltIn::GlobalSize,    BuiltIn::GlobalOffset, BuiltIn::GlobalLinearId};

bool in(SpirvOp op, SpirvOp first, SpirvOp last) { return op >= first && op <= last; }

// The words of an instruction in a function that may be ids: [first, last).
struct Operands {
  size_t first, last;
};
Operands operands(const SpirvInstruction &i) {
  const size_t all = i.words.size();
  switch (i.op) {
    case Line:
    case LoopMerge:
    case SelectionMerge:
    case Label:
    case Branch: return {0, 0};
    case Switch: return {1, 2};
    case Store:
    case CopyMemory: return {1, 3};
    case Function: return {4, all};
    case Variable: return {4, all};
    case Load:
    case CompositeExtract:
    case BranchConditional:
    case CopyMemorySized: return {1, 4};
    case CompositeInsert:
    case VectorShuffle: return {1, 5};
    case ExtInst: return {5, all};
    default: return {1, all};
  }
}

class Surveyor {
 public:
  explicit Surveyor(const SpirvModule &m) : module_(m) {}

  SpirvSurvey take() {
    size_t n = 0;
    for (const SpirvInstruction &i : module_.instructions()) {
      if (out_.functions == 0 && i.op == Function) out_.functions = n;
      if (out_.functions == 0)
        declaration(i, n);
      else
        in_function(i);
      ++n;
    }
    if (out_.functions == 0) refuse("its module has no functions");
    for (const auto &[id, what] : built_ins_)
      if (!found_.contains(id)) refuse("a built-in value of its module is not a variable");
    return std::move(out_);
  }

 private:
  void refuse(const char *why) {
    if (out_.whole.empty()) out_.whole = why;
  }

  void declaration(const SpirvInstruction &i, size_t n) {
    if (out_.decorations_end == 0 &&
        std::find(kPreamble.begin(), kPreamble.end(), i.op) == kPreamble.end())
      out_.decorations_end = n;
    switch (i.op) {
      case Capability:
        if (i.word(1) == kDeviceEnqueue) refuse("its program may launch kernels from the device");
        break;
      case MemoryModel:
        if (i.word(1) != kPhysical64) refuse("its addresses do not have 64 bits");
        break;
      case Decorate: decoration(i); break;
      case GroupDecorate:
        for (u32 id : i.from(2)) grouped_.insert(id);
        break;
      case TypeInt:
      case TypeVector:
      case TypePointer: type(i); break;
      case Constant:
        if (i.words.size() == 4) constants_[i.word(2)] = i.word(3);
        break;
      case Variable: variable(i); break;
      case SpecConstantOp: uses(i, 4, i.words.size()); break;
      default: break;
    }
  }

  void decoration(const SpirvInstruction &i) {
    if (i.word(2) == kBuiltIn) built_ins_[i.word(1)] = static_cast<BuiltIn>(i.word(3));
    out_.may_wait |= i.word(2) == kVolatile || i.word(2) == kCoherent;
  }

  void type(const SpirvInstruction &i) {
    const u32 id = i.word(1);
    if (i.op == TypeInt && i.word(2) == 32 && i.word(3) == 0) out_.uint = id;
    if (i.op == TypeInt && i.word(2) == 64 && i.word(3) == 0) out_.ulong = id;
    if (i.op == TypeVector && i.word(2) == out_.ulong && i.word(3) == 3) out_.vector = id;
    if (i.op != TypePointer) return;
    pointees_[id] = i.word(3);
    if (i.word(2) == kInput && i.word(3) == out_.vector) out_.pointer = id;
  }

  void variable(const SpirvInstruction &i) {
    uses(i, 4, i.words.size());
    const u32 id = i.word(2);
    if (i.word(3) == kCrossWorkgroup) refuse("its program has variables at program scope");
    auto it = built_ins_.find(id);
    if (it == built_ins_.end()) return;
    found_.insert(id);
    const BuiltIn what = it->second;
    if (!out_.variables.emplace(what, id).second) refuse("a built-in variable exists twice");
    if (grouped_.contains(id)) refuse("a built-in variable is decorated in a group");
    if (is_used(what) && (i.word(3) != kInput || pointee(i.word(1)) != type_of(what)))
      refuse("a built-in variable has an unknown type");
    if (std::find(kChanged.begin(), kChanged.end(), what) != kChanged.end())
      out_.changed.emplace(id, what);
  }

  u32 pointee(u32 pointer) const {
    auto it = pointees_.find(pointer);
    return it == pointees_.end() ? 0 : it->second;
  }

  static bool is_used(BuiltIn what) {
    return what == BuiltIn::WorkgroupSize || what == BuiltIn::LocalInvocationId ||
           std::find(kChanged.begin(), kChanged.end(), what) != kChanged.end();
  }

  u32 type_of(BuiltIn what) const {
    switch (what) {
      case BuiltIn::WorkDim: return known(out_.uint);
      case BuiltIn::GlobalLinearId: return known(out_.ulong);
      default: return known(out_.vector);
    }
  }
  // Not 0, which is the pointee of an unknown pointer.
  static u32 known(u32 id) { return id != 0 ? id : ~0u; }

  void in_function(const SpirvInstruction &i) {
    waits(i);
    if (auto it = out_.changed.find(i.word(3)); i.op == Load && it != out_.changed.end()) {
      u32 type = out_.index.contains(i.word(3)) ? out_.ulong : type_of(it->second);
      if (i.word(1) == type) return;
    }
    bool part = (i.op == AccessChain || i.op == InBoundsAccessChain) && i.words.size() == 5;
    if (auto it = out_.changed.find(i.word(3)); part && it != out_.changed.end()) {
      if (!out_.index.contains(i.word(3)) && pointee(i.word(1)) == out_.ulong &&
          out_.changed.emplace(i.word(2), it->second).second) {
        out_.index.emplace(i.word(2), i.word(4));
        return;
      }
    }
    auto [first, last] = operands(i);
    uses(i, first, last);
  }

  void uses(const SpirvInstruction &i, size_t first, size_t last) {
    for (size_t n = first; n < std::min(last, i.words.size()); ++n)
      if (out_.changed.contains(i.words[n]))
        refuse("its module uses a built-in variable in a way that is not known");
  }

  // Sees what other work-groups write while they run.
  void waits(const SpirvInstruction &i) {
    out_.may_wait |= in(i.op, AtomicLoad, AtomicXor) || in(i.op, ReadPipe, GroupCommitWritePipe) ||
                     in(i.op, AtomicFlagTestAndSet, AtomicFlagClear) || i.op == MemoryBarrier ||
                     i.op == MemoryNamedBarrier || i.op >= FirstOfVendors;
    if (i.op == ControlBarrier) {
      auto it = constants_.find(i.word(3));
      out_.may_wait |= it == constants_.end() || (it->second & kGlobalFence) != 0;
    }
    // Behind the mask of a load or store stands its alignment, behind that of a copy also a second
    // mask.
    if (i.op == Load || i.op == Store)
      out_.may_wait |= (i.word(i.op == Load ? 4 : 3) & kVolatileAccess) != 0;
    if (i.op == CopyMemory || i.op == CopyMemorySized)
      for (u32 bits : i.from(i.op == CopyMemory ? 3 : 4))
        out_.may_wait |= (bits & kVolatileAccess) != 0;
  }

  const SpirvModule &module_;
  SpirvSurvey out_;
  std::unordered_map<u32, BuiltIn> built_ins_;
  std::unordered_map<u32, u32> pointees_, constants_;
  std::unordered_set<u32> grouped_, found_;
};

}  // namespace

SpirvSurvey survey(const SpirvModule &module) { return Surveyor(module).take(); }

}  // namespace ckpt::slicing
