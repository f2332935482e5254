// SPDX-License-Identifier: Apache-2.0
//
// Instructions that lanes of a warp execute together: shuffle, vote, match, reduce. They run in two
// steps (vm/barriers.h). Each lane first stores its value in Warp::exchange and waits. When all
// lanes of the member mask have done so, each reads the values that it needs. So the lanes need not
// come by the same path.
#include <algorithm>

#include "softcuda/isa/pick.h"

namespace ckpt::softcuda::isa::CKPT_ISA {
namespace {

template <class T>
void store_value(Warp &w, const Op &o, Mask m) {
  const Cell<T> *a = w.row<Cell<T>>(o.a);
  for_lanes(m, [&](u32 i) { w.exchange[i] = a[i]; });
}

void store_predicate(Warp &w, const Op &o, Mask m) {
  w.exchange_predicate = (w.exchange_predicate & ~m) | (w.bits(o.a) & m);
}

void store_nothing(Warp &, const Op &, Mask) {}

enum class Shuffle { Up, Down, Butterfly, Index };

// PTX ISA, "shfl.sync": computes the source lane, and whether it is inside the segment.
template <Shuffle S>
void shuffle(Warp &w, const Op &o, Mask m) {
  const u32 *b = w.row<u32>(o.b), *c = w.row<u32>(o.c);
  u32 *out = w.row<u32>(o.dst);
  u32 valid = 0;
  for_lanes(m, [&](u32 i) {
    u32 by = b[i] & 31, segment = c[i] >> 8 & 31, clamp = c[i] & 31;
    u32 last = (i & segment) | (clamp & ~segment);
    u32 first = i & segment;
    i32 j = static_cast<i32>(S == Shuffle::Up          ? i - by
                             : S == Shuffle::Down      ? i + by
                             : S == Shuffle::Butterfly ? i ^ by
                                                       : first | (by & ~segment));
    bool in = S == Shuffle::Up ? j >= static_cast<i32>(last) : j <= static_cast<i32>(last);
    if (!in) j = static_cast<i32>(i);
    valid |= static_cast<u32>(in) << i;
    out[i] = static_cast<u32>(w.exchange[j & 31]);
  });
  set_bits(w, o.dst2, m, valid);
}

void vote_all(Warp &w, const Op &o, Mask m) {
  bool all = (w.exchange_predicate & w.participants) == w.participants;
  set_bits(w, o.dst, m, all ? m : 0);
}
void vote_any(Warp &w, const Op &o, Mask m) {
  set_bits(w, o.dst, m, (w.exchange_predicate & w.participants) != 0 ? m : 0);
}
void vote_uni(Warp &w, const Op &o, Mask m) {
  Mask yes = w.exchange_predicate & w.participants;
  set_bits(w, o.dst, m, yes == 0 || yes == w.participants ? m : 0);
}
void fill(Warp &w, const Op &o, Mask m, u32 value) {
  u32 *out = w.row<u32>(o.dst);
  for_lanes(m, [&](u32 i) { out[i] = value; });
}
void vote_ballot(Warp &w, const Op &o, Mask m) {
  fill(w, o, m, w.exchange_predicate & w.participants);
}
void activemask(Warp &w, const Op &o, Mask m) { fill(w, o, m, m); }

Mask equal_to(const Warp &w, u64 value) {
  Mask same = 0;
  for (Mask left = w.participants; left != 0; left &= left - 1) {
    u32 i = static_cast<u32>(std::countr_zero(left));
    if (w.exchange[i] == value) same |= 1u << i;
  }
  return same;
}
void match_any(Warp &w, const Op &o, Mask m) {
  u32 *out = w.row<u32>(o.dst);
  for_lanes(m, [&](u32 i) { out[i] = equal_to(w, w.exchange[i]); });
}
void match_all(Warp &w, const Op &o, Mask m) {
  u32 first = static_cast<u32>(std::countr_zero(w.participants));
  bool all = equal_to(w, w.exchange[first]) == w.participants;
  fill(w, o, m, all ? w.participants : 0);
  set_bits(w, o.dst2, m, all ? m : 0);
}

struct Add {
  template <class T>
  static T run(T a, T b) {
    return static_cast<T>(static_cast<u32>(a) + static_cast<u32>(b));
  }
};
struct Min {
  template <class T>
  static T run(T a, T b) {
    return std::min(a, b);
  }
};
struct Max {
  template <class T>
  static T run(T a, T b) {
    return std::max(a, b);
  }
};
struct And {
  template <class T>
  static T run(T a, T b) {
    return a & b;
  }
};
struct Or {
  template <class T>
  static T run(T a, T b) {
    return a | b;
  }
};
struct Xor {
  template <class T>
  static T run(T a, T b) {
    return a ^ b;
  }
};

template <class F, class T>
void redux(Warp &w, const Op &o, Mask m) {
  Mask left = w.participants;
  T total = static_cast<T>(w.exchange[std::countr_zero(left)]);
  for (left &= left - 1; left != 0; left &= left - 1)
    total = F::run(total, static_cast<T>(w.exchange[std::countr_zero(left)]));
  fill(w, o, m, static_cast<u32>(total));
}

// The lowest lane is elected.
void elect(Warp &w, const Op &o, Mask m) {
  u32 leader = static_cast<u32>(std::countr_zero(w.participants));
  if (o.dst != vm::kNoRow) fill(w, o, m, leader);
  set_bits(w, o.dst2, m, 1u << leader);
}

void nothing(Warp &, const Op &, Mask) {}

bool sync(Selected &s, Run run, Run inner) {
  s.run = run;
  s.inner = inner;
  s.flow = vm::Flow::WarpSync;
  return run != nullptr;
}

bool select_shuffle(const Instruction &in, Selected &s) {
  uniform(s, nullptr, Type::B32);
  Run run = in.has("up")     ? &shuffle<Shuffle::Up>
            : in.has("down") ? &shuffle<Shuffle::Down>
            : in.has("bfly") ? &shuffle<Shuffle::Butterfly>
                             : &shuffle<Shuffle::Index>;
  return in.has("sync") && sync(s, run, &store_value<u32>);
}

bool select_vote(const Instruction &in, Selected &s) {
  uniform(s, nullptr, Type::B32);
  s.src[0] = Type::Pred;
  s.dst = in.has("ballot") ? Type::B32 : Type::Pred;
  Run run = in.has("ballot") ? &vote_ballot
            : in.has("all")  ? &vote_all
            : in.has("any")  ? &vote_any
                             : &vote_uni;
  return in.has("sync") && sync(s, run, &store_predicate);
}

bool select_match(const Instruction &in, Selected &s) {
  uniform(s, nullptr, Type::B32);
  bool wide = in.type() == Type::B64;
  s.src[0] = in.type();
  return sync(s, in.has("any") ? &match_any : &match_all,
              wide ? &store_value<u64> : &store_value<u32>);
}

bool select_redux(const Instruction &in, Selected &s) {
  uniform(s, nullptr, Type::B32);
  bool sign = in.type() == Type::S32;
  if (ptx::is_float(in.type())) return false;
  Run run = in.has("add")   ? &redux<Add, u32>
            : in.has("and") ? &redux<And, u32>
            : in.has("or")  ? &redux<Or, u32>
            : in.has("xor") ? &redux<Xor, u32>
            : in.has("min") ? sign ? &redux<Min, i32> : &redux<Min, u32>
            : in.has("max") ? sign ? &redux<Max, i32> : &redux<Max, u32>
                            : nullptr;
  return sync(s, run, &store_value<u32>);
}

}  // namespace

bool select_warp(const Instruction &in, Selected &s) {
  if (in.opcode == "shfl") return select_shuffle(in, s);
  if (in.opcode == "vote") return select_vote(in, s);
  if (in.opcode == "match") return select_match(in, s);
  if (in.opcode == "redux") return select_redux(in, s);
  if (in.opcode == "activemask") return uniform(s, &activemask, Type::B32);
  if (in.opcode == "elect") {
    uniform(s, nullptr, Type::B32);
    return sync(s, &elect, &store_nothing);
  }
  if ((in.opcode == "bar" || in.opcode == "barrier") && in.has("warp")) {
    uniform(s, nullptr, Type::B32);
    s.shape = Shape::NoResult;
    return sync(s, &nothing, &store_nothing);
  }
  return false;
}

}  // namespace ckpt::softcuda::isa::CKPT_ISA
