// SPDX-License-Identifier: Apache-2.0
//
// The problem is that of opencl_source.cc, for programs that are SPIR-V modules: a slice's
// work-items must get the numbers of the whole launch, which the slice's global offset contains.
//
// How it works. A module reads such a number from a variable with the decoration BuiltIn. Each load
// of such a variable is replaced by loads of the variables that a slice does not change and a few
// operations on vectors, one number for each dimension; the result keeps its id, so nothing else in
// the module changes:
//
//   %g = OpLoad %v3ulong %GlobalInvocationId        %o = OpLoad %v3ulong %GlobalOffset
//                                                   %w = OpLoad %v3ulong %WorkgroupId
//                                                   %f = OpBitwiseAnd %v3ulong %o %mask
//                                                   …
//                                                   %g = OpCopyObject %v3ulong %sum
//
// A load of one number, through OpAccessChain, is a load of all three and OpVectorExtractDynamic.
// Variables that the module lacks are added, as are constants. The variables stand in the list of
// each entry point, as the specification requires.
//
// In form 0 the dimensions that a launch does not have get the offset 0, so the size 0, and must
// answer 1: size = items + (items - 1 >> 63), without a branch.
//
// What it relies on: built-in variables are only loaded, as compilers do that are known. A module
// that uses one in another way runs whole, as one with addresses of 32 bits, and one that may
// launch kernels itself.
//
// Source: SPIR-V specification, unified1; OpenCL SPIR-V environment specification, section 2.9.
#include "slicing/spirv.h"

#include <array>

#include "slicing/spirv_survey.h"

namespace ckpt::slicing {
namespace {

using enum SpirvOp;

constexpr u64 kLow = 0xffffffff;
constexpr u32 kBuiltInDecoration = 11;
constexpr size_t kMostWords = 0xffff;  // of an instruction

using Vector = std::array<u64, 3>;

// Words of instructions.
class Text {
 public:
  // `last` follows `words`.
  void put(SpirvOp op, std::span<const u32> words, std::span<const u32> last = {}) {
    auto length = static_cast<u32>(1 + words.size() + last.size());
    words_.push_back(length << 16 | static_cast<u32>(op));
    words_.insert(words_.end(), words.begin(), words.end());
    words_.insert(words_.end(), last.begin(), last.end());
  }
  void put(SpirvOp op, std::initializer_list<u32> words) {
    put(op, std::span(words.begin(), words.size()));
  }
  void copy(const SpirvInstruction &i) {
    words_.insert(words_.end(), i.words.begin(), i.words.end());
  }
  void append(const Text &more) {
    words_.insert(words_.end(), more.words_.begin(), more.words_.end());
  }
  void header(std::span<const u32> of, u32 bound) {
    words_.assign(of.begin(), of.end());
    words_[3] = bound;
  }
  ByteView bytes() const { return view(words_.data(), words_.size() * sizeof(u32)); }

 private:
  std::vector<u32> words_;
};

class Pass {
 public:
  Pass(const SpirvModule &m, SpirvSurvey s, u32 form)
      : module_(m), survey_(std::move(s)), form_(form), next_id_(m.bound()) {}

  Result<Bytes> run() {
    std::span<const SpirvInstruction> all = module_.instructions();
    for (const SpirvInstruction &i : all.subspan(survey_.functions)) in_function(i);
    Text out;
    out.header(module_.header(), next_id_);
    for (const SpirvInstruction &i : all.first(survey_.decorations_end))
      if (!in_preamble(out, i)) return fail("an entry point has too many variables");
    out.append(decorations_);
    for (const SpirvInstruction &i :
         all.subspan(survey_.decorations_end, survey_.functions - survey_.decorations_end))
      out.copy(i);
    out.append(globals_);
    out.append(functions_);
    if (next_id_ > SpirvModule::kMostIds) return fail("it has too many ids");
    ByteView made = out.bytes();
    return Bytes(made.begin(), made.end());
  }

 private:
  // The variables that are read are in the list of each entry point.
  bool in_preamble(Text &out, const SpirvInstruction &i) const {
    if (i.op != EntryPoint) {
      out.copy(i);
      return true;
    }
    std::vector<u32> added;
    size_t list = end_of_name(i, 3);
    for (const auto &[what, id] : read_)
      if (std::ranges::find(i.from(list), id) == i.words.end()) added.push_back(id);
    out.put(EntryPoint, i.from(1), added);
    return i.words.size() + added.size() <= kMostWords;
  }

  // The word behind the string that begins with the n-th one.
  static size_t end_of_name(const SpirvInstruction &i, size_t n) {
    for (; n < i.words.size(); ++n)
      for (u32 shift = 0; shift < 32; shift += 8)
        if ((i.words[n] >> shift & 0xff) == 0) return n + 1;
    return n;
  }

  void in_function(const SpirvInstruction &i) {
    auto it = survey_.changed.find(i.word(3));
    if (i.op != Load || it == survey_.changed.end() || is_kept(it->second)) {
      functions_.copy(i);
      return;
    }
    u32 result = value(it->second);
    if (auto part = survey_.index.find(i.word(3)); part != survey_.index.end())
      functions_.put(VectorExtractDynamic, {i.word(1), i.word(2), result, part->second});
    else
      functions_.put(CopyObject, {i.word(1), i.word(2), result});
  }

  // A launch without an offset has the program's dimensions.
  bool is_kept(BuiltIn what) const { return what == BuiltIn::WorkDim && form_ == 0; }

  u32 value(BuiltIn what) {
    switch (what) {
      case BuiltIn::WorkDim: return dimensions();
      case BuiltIn::WorkgroupId: return group();
      case BuiltIn::GlobalInvocationId: return add(place(), offset());
      case BuiltIn::GlobalSize: return size();
      case BuiltIn::NumWorkgroups: return calculated(UDiv, size(), load(BuiltIn::WorkgroupSize));
      case BuiltIn::GlobalOffset: return offset();
      default: return linear();
    }
  }

  // The slice's offset has these, as opencl_source.cc describes.
  u32 first() {
    return form_ == 3 ? packed(constant(5)) : masked(load(BuiltIn::GlobalOffset), used(kLow));
  }
  u32 items() {
    if (form_ == 3)
      return calculated(IMul, packed(add(constant(5), width())), load(BuiltIn::WorkgroupSize));
    return masked(shifted(load(BuiltIn::GlobalOffset), constant(32)), used(kLow));
  }
  u32 offset() {
    switch (form_) {
      case 0: return constant(0);
      case 1: return chosen(load(BuiltIn::GlobalOffset), {1, 3, 3});
      case 2:
        return masked(shifted(chosen(load(BuiltIn::GlobalOffset), {2, 2, 3}), vector({0, 32, 0})),
                      {kLow, kLow, kLow});
      default: return shifted(load(BuiltIn::GlobalOffset), add(constant(5), add(width(), width())));
    }
  }
  u32 width() { return masked(load(BuiltIn::GlobalOffset), {31, 31, 31}); }
  u32 packed(u32 bit) {
    u32 power = calculated(ShiftLeftLogical, constant(1), width());
    u32 mask = calculated(ISub, power, constant(1));
    return calculated(BitwiseAnd, shifted(load(BuiltIn::GlobalOffset), bit), mask);
  }
  // In the dimensions of the form, which in form 0 are all.
  Vector used(u64 mask) const { return {mask, form_ == 1 ? 0 : mask, form_ % 3 != 0 ? 0 : mask}; }

  u32 group() { return add(load(BuiltIn::WorkgroupId), first()); }
  u32 place() {
    u32 before = calculated(IMul, group(), load(BuiltIn::WorkgroupSize));
    return add(before, load(BuiltIn::LocalInvocationId));
  }
  u32 size() {
    u32 n = items();
    return add(n, shifted(calculated(ISub, n, constant(1)), constant(63)));
  }
  u32 linear() {
    u32 at = place(), sizes = size(), sum = part(at, 2);
    for (u32 d : {1u, 0u}) {
      u32 product = made(survey_.ulong, IMul, {sum, part(sizes, d)});
      sum = made(survey_.ulong, IAdd, {product, part(at, d)});
    }
    return sum;
  }
  u32 dimensions() {
    if (dimensions_ == 0) globals_.put(Constant, {survey_.uint, dimensions_ = next_id_++, form_});
    return dimensions_;
  }

  // The result's id.
  u32 made(u32 type, SpirvOp op, std::initializer_list<u32> operands) {
    functions_.put(op, std::array{type, next_id_}, {operands.begin(), operands.size()});
    return next_id_++;
  }
  u32 calculated(SpirvOp op, u32 a, u32 b) { return made(vector_type(), op, {a, b}); }
  u32 add(u32 a, u32 b) { return calculated(IAdd, a, b); }
  u32 shifted(u32 a, u32 by) { return calculated(ShiftRightLogical, a, by); }
  u32 masked(u32 a, const Vector &mask) { return calculated(BitwiseAnd, a, vector(mask)); }
  u32 part(u32 a, u32 n) { return made(survey_.ulong, CompositeExtract, {a, n}); }
  // Numbers of `a`; 3 is 0.
  u32 chosen(u32 a, const std::array<u32, 3> &n) {
    return made(vector_type(), VectorShuffle, {a, constant(0), n[0], n[1], n[2]});
  }
  u32 load(BuiltIn what) {
    u32 from = variable(what);
    return made(vector_type(), Load, {from});
  }

  u32 constant(u64 each) { return vector({each, each, each}); }
  u32 vector(const Vector &v) {
    u32 &id = vectors_[v];
    if (id != 0) return id;
    std::array<u32, 3> parts{};
    for (size_t d = 0; d < v.size(); ++d) parts[d] = number(v[d]);
    u32 type = vector_type();
    globals_.put(ConstantComposite, {type, id = next_id_++, parts[0], parts[1], parts[2]});
    return id;
  }
  u32 number(u64 n) {
    u32 &id = numbers_[n];
    if (id == 0)
      globals_.put(Constant, {survey_.ulong, id = next_id_++, static_cast<u32>(n),
                              static_cast<u32>(n >> 32)});
    return id;
  }
  u32 vector_type() {
    if (survey_.vector == 0)
      globals_.put(TypeVector, {survey_.vector = next_id_++, survey_.ulong, 3});
    return survey_.vector;
  }

  u32 variable(BuiltIn what) {
    u32 &id = survey_.variables[what];
    if (id == 0) {
      u32 type = vector_type();
      if (survey_.pointer == 0)
        globals_.put(TypePointer, {survey_.pointer = next_id_++, kInput, type});
      globals_.put(Variable, {survey_.pointer, id = next_id_++, kInput});
      decorations_.put(Decorate, {id, kBuiltInDecoration, static_cast<u32>(what)});
    }
    return read_[what] = id;
  }

  const SpirvModule &module_;
  SpirvSurvey survey_;
  const u32 form_;
  u32 next_id_, dimensions_ = 0;
  Text decorations_, globals_, functions_;
  std::map<Vector, u32> vectors_;
  std::map<u64, u32> numbers_;
  std::map<BuiltIn, u32> read_;
};

}  // namespace

SlicedSpirv sliced_spirv(ByteView bytes, u32 form) {
  SlicedSpirv out;
  Result<SpirvModule> module = SpirvModule::parse(bytes);
  if (!module) {
    out.whole = module.error().what;
    return out;
  }
  SpirvSurvey s = survey(*module);
  out.may_wait = s.may_wait;
  out.whole = s.whole;
  if (!out.whole.empty()) return out;
  Result<Bytes> made = Pass(*module, std::move(s), form).run();
  if (made)
    out.module = std::move(*made);
  else
    out.whole = made.error().what;
  return out;
}

}  // namespace ckpt::slicing
