// SPDX-License-Identifier: Apache-2.0
//
// The pass's modules are executed by an interpreter of the few instructions that it writes, for
// every slice of many launches. tests/system/test_slicing_spirv.py runs modules of a compiler.
#include <doctest/doctest.h>

#include <random>

#include "slicing/opencl_source.h"
#include "slicing/spirv.h"
#include "slicing/spirv_survey.h"

using namespace ckpt;
using namespace ckpt::slicing;
using Op = SpirvOp;

namespace {

using Value = std::array<u64, 3>;
using Words = std::vector<u32>;

enum Id : u32 {
  kVoid = 1,
  kUint,
  kUlong,
  kVector,
  kVectorIn,
  kUlongIn,
  kUintIn,
  kFunction,
  kMain,
  kLabel,
  kTwo,
  kVariables,     // 20: + the number of a built-in
  kResults = 60,  // what was loaded
  kPart = 100,
  kOne,  // a pointer to one number, and that
  kBound = 110
};

constexpr BuiltIn kAll[] = {
    BuiltIn::NumWorkgroups, BuiltIn::WorkgroupId,  BuiltIn::GlobalInvocationId, BuiltIn::WorkDim,
    BuiltIn::GlobalSize,    BuiltIn::GlobalOffset, BuiltIn::GlobalLinearId};

u32 variable_of(BuiltIn b) { return 20 + static_cast<u32>(b) - 24; }
u32 result_of(BuiltIn b) { return kResults + static_cast<u32>(b) - 24; }

struct Module {
  Words words{SpirvModule::kMagic, 0x00010000, 0, kBound, 0};
  void op(SpirvOp code, Words operands) {
    words.push_back(static_cast<u32>(operands.size() + 1) << 16 | static_cast<u32>(code));
    words.insert(words.end(), operands.begin(), operands.end());
  }
  ByteView bytes() const { return view(words.data(), words.size() * sizeof(u32)); }
};

void header(Module &m) {
  for (u32 capability : {4u, 6u, 11u}) m.op(Op::Capability, {capability});
  m.op(Op::MemoryModel, {2, 2});
  m.op(Op::EntryPoint, {6, kMain, 'f', variable_of(BuiltIn::WorkgroupId)});
  for (BuiltIn b : kAll) m.op(Op::Decorate, {variable_of(b), 11, static_cast<u32>(b)});
}

void types(Module &m) {
  m.op(static_cast<SpirvOp>(19), {kVoid});
  m.op(Op::TypeInt, {kUint, 32, 0});
  m.op(Op::TypeInt, {kUlong, 64, 0});
  m.op(Op::TypeVector, {kVector, kUlong, 3});
  m.op(Op::TypePointer, {kVectorIn, 1, kVector});
  m.op(Op::TypePointer, {kUlongIn, 1, kUlong});
  m.op(Op::TypePointer, {kUintIn, 1, kUint});
  m.op(static_cast<SpirvOp>(33), {kFunction, kVoid});
  m.op(Op::Constant, {kUint, kTwo, 2});
}

u32 type_of(BuiltIn b) {
  return b == BuiltIn::WorkDim ? kUint : b == BuiltIn::GlobalLinearId ? kUlong : kVector;
}
u32 pointer_of(BuiltIn b) {
  return b == BuiltIn::WorkDim ? kUintIn : b == BuiltIn::GlobalLinearId ? kUlongIn : kVectorIn;
}

// Loads every number, and one of them alone. `more` is put behind that.
Module numbers(const Module &more = {}) {
  Module m;
  header(m);
  types(m);
  for (BuiltIn b : kAll) m.op(Op::Variable, {pointer_of(b), variable_of(b), 1});
  m.op(Op::Function, {kVoid, kMain, 0, kFunction});
  m.op(Op::Label, {kLabel});
  for (BuiltIn b : kAll) m.op(Op::Load, {type_of(b), result_of(b), variable_of(b)});
  m.op(Op::InBoundsAccessChain, {kUlongIn, kPart, variable_of(BuiltIn::GlobalInvocationId), kTwo});
  m.op(Op::Load, {kUlong, kOne, kPart, 2, 8});
  m.words.insert(m.words.end(), more.words.begin() + 5, more.words.end());
  m.op(static_cast<SpirvOp>(253), {});
  m.op(static_cast<SpirvOp>(56), {});
  return m;
}

struct Interpreter {
  std::map<BuiltIn, Value> built_ins;
  std::map<u32, BuiltIn> variables{};
  std::map<u32, Value> values{};

  void run(ByteView bytes) {
    Result<SpirvModule> m = SpirvModule::parse(bytes);
    REQUIRE(m);
    for (const SpirvInstruction &i : m->instructions()) step(i);
  }

  void step(const SpirvInstruction &i) {
    Value a = values[i.word(3)], b = values[i.word(4)];
    auto each = [&](auto f) {
      for (size_t d = 0; d < 3; ++d) values[i.word(2)][d] = f(a[d], b[d]);
    };
    switch (i.op) {
      case Op::Decorate: variables[i.word(1)] = static_cast<BuiltIn>(i.word(3)); break;
      case Op::Constant: values[i.word(2)] = {i.word(3) | u64{i.word(4)} << 32}; break;
      case Op::ConstantComposite:
        for (size_t d = 0; d < 3; ++d) values[i.word(2)][d] = values[i.word(3 + d)][0];
        break;
      case Op::Load:
        if (variables.contains(i.word(3))) {
          REQUIRE(built_ins.contains(variables[i.word(3)]));
          values[i.word(2)] = built_ins[variables[i.word(3)]];
        }
        break;
      case Op::VectorShuffle:
        for (size_t d = 0; d < 3; ++d)
          values[i.word(2)][d] = i.word(5 + d) < 3 ? a[i.word(5 + d)] : b[i.word(5 + d) - 3];
        break;
      case Op::CompositeExtract: values[i.word(2)] = {a[i.word(4)]}; break;
      case Op::VectorExtractDynamic: values[i.word(2)] = {a[b[0]]}; break;
      case Op::CopyObject: values[i.word(2)] = a; break;
      case Op::IAdd: each([](u64 x, u64 y) { return x + y; }); break;
      case Op::ISub: each([](u64 x, u64 y) { return x - y; }); break;
      case Op::IMul: each([](u64 x, u64 y) { return x * y; }); break;
      case Op::UDiv: each([](u64 x, u64 y) { return y == 0 ? 0 : x / y; }); break;
      case Op::ShiftLeftLogical: each([](u64 x, u64 y) { return x << (y & 63); }); break;
      case Op::ShiftRightLogical: each([](u64 x, u64 y) { return x >> (y & 63); }); break;
      case Op::BitwiseAnd: each([](u64 x, u64 y) { return x & y; }); break;
      default: break;
    }
  }
};

// What the work-item `local` of group `of_slice` of the slice from `first` on must read.
void check(const NdRange &r, const Dim &first, const Value &of_slice, const Value &local) {
  Interpreter it;
  std::array<u64, 3> offset = slice_offset(r, first);
  it.built_ins = {{BuiltIn::WorkgroupId, of_slice},
                  {BuiltIn::LocalInvocationId, local},
                  {BuiltIn::WorkgroupSize, r.group},
                  {BuiltIn::GlobalOffset, offset},
                  {BuiltIn::WorkDim, {slice_dims(r)}}};
  SlicedSpirv sliced = sliced_spirv(numbers().bytes(), form_of(r));
  REQUIRE(sliced.whole == "");
  it.run(sliced.module);
  Value group, global, groups, place;
  for (size_t d = 0; d < 3; ++d) {
    group[d] = first[d] + of_slice[d];
    place[d] = group[d] * r.group[d] + local[d];
    global[d] = place[d] + r.offset[d];
    groups[d] = r.items[d] / r.group[d];
  }
  CHECK(it.values[result_of(BuiltIn::WorkgroupId)] == group);
  CHECK(it.values[result_of(BuiltIn::GlobalInvocationId)] == global);
  CHECK(it.values[kOne][0] == global[2]);
  CHECK(it.values[result_of(BuiltIn::GlobalSize)] == r.items);
  CHECK(it.values[result_of(BuiltIn::NumWorkgroups)] == groups);
  CHECK(it.values[result_of(BuiltIn::GlobalOffset)] == r.offset);
  CHECK(it.values[result_of(BuiltIn::WorkDim)][0] == r.dims);
  CHECK(it.values[result_of(BuiltIn::GlobalLinearId)][0] ==
        (place[2] * r.items[1] + place[1]) * r.items[0] + place[0]);
}

std::string reason(const Module &m) { return sliced_spirv(m.bytes(), 0).whole; }

}  // namespace

TEST_CASE("a slice of a SPIR-V module reads the numbers of the whole launch, in every form") {
  std::mt19937_64 random(21);
  auto below = [&](u64 n) { return std::uniform_int_distribution<u64>(0, n - 1)(random); };
  for (int n = 0; n < 400; ++n) {
    NdRange r;
    r.dims = 1 + n % 3;
    Dim first{};
    Value of_slice{}, local{};
    for (size_t d = 0; d < r.dims; ++d) {
      r.group[d] = 1 + below(8);
      u64 groups = 1 + below(1000);
      r.items[d] = r.group[d] * groups;
      if (n % 2 == 1) r.offset[d] = below(100'000);
      first[d] = static_cast<u32>(below(groups));
      of_slice[d] = below(groups - first[d]);
      local[d] = below(r.group[d]);
    }
    REQUIRE(fits(r));
    check(r, first, of_slice, local);
  }
}

TEST_CASE("variables that a SPIR-V module lacks are decorated, and stand at its entry points") {
  Bytes made = sliced_spirv(numbers().bytes(), 1).module;
  Result<SpirvModule> m = SpirvModule::parse(made);
  REQUIRE(m);
  SpirvSurvey s = survey(*m);
  for (const SpirvInstruction &i : m->instructions())
    if (i.op == Op::EntryPoint)
      for (BuiltIn b : {BuiltIn::WorkgroupSize, BuiltIn::LocalInvocationId, BuiltIn::WorkgroupId})
        CHECK(std::ranges::count(i.from(4), s.variables[b]) == 1);
  CHECK(s.variables[BuiltIn::LocalInvocationId] >= kBound);
  CHECK(m->bound() > s.variables[BuiltIn::LocalInvocationId]);
}

TEST_CASE("a SPIR-V module that cannot be divided says why") {
  Module launches = numbers();
  launches.words.insert(launches.words.begin() + 5, {2u << 16 | 17, 19});
  CHECK(reason(launches) == "its program may launch kernels from the device");
  Module narrow = numbers();
  for (size_t i = 5; i < narrow.words.size(); ++i)
    if (narrow.words[i] == (3u << 16 | 14)) narrow.words[i + 1] = 1;
  CHECK(reason(narrow) == "its addresses do not have 64 bits");
  Module used;
  used.op(Op::CopyObject, {kVectorIn, 104, variable_of(BuiltIn::WorkgroupId)});
  CHECK(reason(numbers(used)) == "its module uses a built-in variable in a way that is not known");
  Module literal;  // a literal that looks like the variable
  literal.op(Op::CompositeExtract, {kUlong, 104, kResults, variable_of(BuiltIn::WorkgroupId)});
  CHECK(reason(numbers(literal)) == "");
  Module shared = numbers();
  Words variable{4u << 16 | 59, kVectorIn, 105, 5};
  for (size_t i = 5; i < shared.words.size(); ++i)
    if (shared.words[i] == (5u << 16 | 54)) {
      shared.words.insert(shared.words.begin() + static_cast<long>(i), variable.begin(),
                          variable.end());
      break;
    }
  CHECK(reason(shared) == "its program has variables at program scope");
}

TEST_CASE("a SPIR-V module may wait if it has atomic, volatile or fenced operations") {
  CHECK(!sliced_spirv(numbers().bytes(), 0).may_wait);
  auto waits = [](SpirvOp op, Words operands) {
    Module more;
    more.op(op, std::move(operands));
    return sliced_spirv(numbers(more).bytes(), 0).may_wait;
  };
  CHECK(waits(Op::AtomicLoad, {kUint, 104, 105, kTwo, kTwo}));
  CHECK(waits(Op::Load, {kUint, 104, 105, 1}));
  CHECK(waits(Op::Store, {105, 104, 3, 4}));
  CHECK(waits(Op::MemoryBarrier, {kTwo, kTwo}));
  CHECK(waits(Op::ControlBarrier, {kTwo, kTwo, 107}));    // not known
  CHECK(!waits(Op::ControlBarrier, {kTwo, kTwo, kTwo}));  // of a group's own memory
  CHECK(!waits(Op::Load, {kUint, 104, 105, 2, 1}));       // an alignment of 1
}

TEST_CASE("damaged SPIR-V modules are refused or rewritten, and not read behind their end") {
  CHECK(SpirvModule::parse({}).error().what == "its length is not that of a SPIR-V module");
  Module wrong;
  wrong.words[0] = 0x03022307;
  CHECK(reason(wrong) == "it is not in SPIR-V, or in the other byte order");
  std::mt19937 random(7);
  const Module whole = numbers();
  for (int n = 0; n < 20'000; ++n) {
    Module m = whole;
    for (u32 k = random() % 4; k > 0; --k)
      m.words[5 + random() % (m.words.size() - 5)] = random() % 3 == 0 ? random() : random() % 120;
    if (n % 5 == 0) m.words.resize(5 + random() % (m.words.size() - 5));
    SlicedSpirv r = sliced_spirv(m.bytes(), n % 4);
    if (r.whole.empty()) CHECK(SpirvModule::parse(r.module));
  }
}
