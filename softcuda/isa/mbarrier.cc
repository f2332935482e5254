// SPDX-License-Identifier: Apache-2.0
//
// mbarrier objects and bulk copies that signal them (PTX ISA, "Parallel Synchronization and
// Communication Instructions: mbarrier", "Data Movement: cp.async.bulk"). A copy is complete when
// the instruction ends, so waiting for a group of copies does nothing. All blocks of a cluster run
// on one thread of the host, so nothing here needs to be atomic.
#include "softcuda/isa/place.h"

namespace ckpt::softcuda::isa::any {
namespace {

// The 64 bits of an object. PTX leaves the format to the implementation.
struct Object {
  u64 phase : 1;
  u64 pending : 20;   // arrivals that the phase still waits for
  u64 expected : 20;  // arrivals of a phase
  i64 bytes : 23;     // of transactions that the phase still waits for
};
static_assert(sizeof(Object) == 8);
constexpr u32 kMaxArrivals = (1u << 20) - 1;

// Op::aux.
enum Action : u16 {
  kInit,
  kInvalidate,
  kArrive,
  kArriveDrop,
  kArriveExpect,  // bytes, and one arrival
  kExpect,
  kComplete,
  kTestState,
  kTestParity,
  kCopied,       // cp.async.mbarrier.arrive: adds one arrival and completes it, no net effect
  kCopiedNoInc,  // with .noinc: one of the expected arrivals
};

void arrive(Object &b, u64 count) { b.pending = b.pending < count ? 0 : b.pending - count; }

// Starts the next phase if nothing is pending.
void advance(Object &b) {
  if (b.pending != 0 || b.bytes != 0) return;
  b.phase ^= 1;
  b.pending = b.expected;
}

void change(Object &b, Action action, u64 value) {
  switch (action) {
    case kInit: b = Object{0, value & kMaxArrivals, value & kMaxArrivals, 0}; return;
    case kInvalidate: b = Object{}; return;
    case kArrive:
    case kCopiedNoInc: arrive(b, value); break;
    case kArriveDrop:
      b.expected = b.expected < value ? 0 : b.expected - value;
      arrive(b, value);
      break;
    case kArriveExpect:
      b.bytes += static_cast<i64>(value);
      arrive(b, 1);
      break;
    case kExpect: b.bytes += static_cast<i64>(value); return;
    case kComplete: b.bytes -= static_cast<i64>(value); break;
    default: return;
  }
  advance(b);
}

bool is_test(Action a) { return a == kTestState || a == kTestParity; }

// Op::aux: the action; a: the address; b: a count, a number of bytes, a state or a parity.
template <Where W>
void mbarrier(Warp &w, const Op &o, Mask m) {
  In<Address<W>> at(w, o.a);
  Action action = static_cast<Action>(o.aux);
  Mask over = 0;
  for (Mask left = m; left != 0; left &= left - 1) {
    u32 i = static_cast<u32>(std::countr_zero(left));
    u64 address = at[i] + static_cast<u64>(o.imm);
    char *p = place<W>(w, o, i, address, 8, true);
    if (p == nullptr || address % 8 != 0) return report_address(w, o, i, address, 8, true);
    Object b;
    std::memcpy(&b, p, sizeof b);
    if (action == kTestState) {
      over |= static_cast<u32>(std::bit_cast<Object>(w.row<u64>(o.b)[i]).phase != b.phase) << i;
    } else if (action == kTestParity) {
      over |= static_cast<u32>((w.row<u32>(o.b)[i] & 1) != b.phase) << i;
    } else {
      if (o.dst != vm::kNoRow) w.row<u64>(o.dst)[i] = std::bit_cast<u64>(b);
      change(b, action, w.row<u32>(o.b)[i]);
      std::memcpy(p, &b, sizeof b);
    }
  }
  if (is_test(action)) set_bits(w, o.dst, m, over);
}

u32 pending_count(u64 state) { return static_cast<u32>(std::bit_cast<Object>(state).pending); }

Action action_of(const Instruction &in) {
  if (in.opcode == "cp") return in.has("noinc") ? kCopiedNoInc : kCopied;
  if (in.has("init")) return kInit;
  if (in.has("inval")) return kInvalidate;
  if (in.has("arrive_drop")) return kArriveDrop;
  if (in.has("arrive")) return in.has("expect_tx") ? kArriveExpect : kArrive;
  if (in.has("expect_tx")) return kExpect;
  if (in.has("complete_tx")) return kComplete;
  return in.has("parity") ? kTestParity : kTestState;
}

bool select_object(const Instruction &in, Selected &s) {
  if (in.has("pending_count")) {
    uniform(s, lift<&pending_count>, Type::B64);
    s.dst = Type::B32;
    return true;
  }
  Action action = action_of(in);
  // arrive_drop.expect_tx has operands of its own, and is not supported.
  if (action == kArriveDrop && in.has("expect_tx")) return false;
  s.run = where(in.space()) == Where::Shared ? &mbarrier<Where::Shared> : &mbarrier<Where::Global>;
  s.shape = Shape::MBarrier;
  // Programs repeat a test that fails, so other lanes should run first.
  s.flow = is_test(action) ? vm::Flow::Yield : vm::Flow::Checked;
  s.aux = action;
  s.dst = is_test(action) ? Type::Pred : Type::B64;
  s.src[0] = action == kTestState ? Type::B64 : Type::B32;
  return true;
}

// cp.async.bulk: dst and a: addresses; b: bytes; c: the mbarrier, or kNoRow. Op::imm, d and list
// are the offsets of the three addresses.
template <Where To, Where From>
void bulk(Warp &w, const Op &o, Mask m) {
  In<Address<To>> to(w, o.dst);
  In<Address<From>> from(w, o.a);
  for (; m != 0; m &= m - 1) {
    u32 i = static_cast<u32>(std::countr_zero(m)), bytes = w.row<u32>(o.b)[i];
    u64 target = to[i] + static_cast<u64>(o.imm), source = from[i] + o.d;
    if (bytes == 0) continue;
    char *d = place<To>(w, o, i, target, bytes, true);
    if (d == nullptr || target % 16 != 0) return report_address(w, o, i, target, bytes, true);
    char *p = place<From>(w, o, i, source, bytes, false);
    if (p == nullptr || source % 16 != 0) return report_address(w, o, i, source, bytes, false);
    std::memmove(d, p, bytes);
    if (o.c == vm::kNoRow) continue;
    u32 at = w.row<u32>(o.c)[i] + o.list;
    char *object = place<Where::Shared>(w, o, i, at, 8, true);
    if (object == nullptr || at % 8 != 0) return report_address(w, o, i, at, 8, true);
    Object b;
    std::memcpy(&b, object, sizeof b);
    change(b, kComplete, bytes);
    std::memcpy(object, &b, sizeof b);
  }
}

void nothing(Warp &, const Op &, Mask) {}

bool select_bulk(const Instruction &in, Selected &s) {
  if (in.has("commit_group") || in.has("wait_group") || in.has("prefetch")) {
    s.run = &nothing;
    s.shape = Shape::Ignored;
    return true;
  }
  for (std::string_view no : {"tensor", "reduce", "multicast::cluster", "cp_mask", "ignore_oob"})
    if (in.has(no)) return false;
  // cp.async.bulk.TO.FROM
  if (in.modifiers.size() < 4) return false;
  bool to_global = in.modifiers[2] == "global", from_global = in.modifiers[3] == "global";
  if (to_global && from_global) return false;
  s.run = to_global     ? &bulk<Where::Global, Where::Shared>
          : from_global ? &bulk<Where::Shared, Where::Global>
                        : &bulk<Where::Shared, Where::Shared>;
  s.src[0] = to_global ? Type::U64 : Type::U32;
  s.src[1] = from_global ? Type::U64 : Type::U32;
  s.shape = Shape::Bulk;
  s.flow = vm::Flow::Checked;
  return true;
}

}  // namespace

bool select_mbarrier(const Instruction &in, Selected &s) {
  if (in.opcode == "mbarrier") return select_object(in, s);
  if (in.opcode != "cp" || !in.has("async")) return false;
  if (in.has("bulk")) return select_bulk(in, s);
  return in.has("mbarrier") && select_object(in, s);
}

}  // namespace ckpt::softcuda::isa::any
