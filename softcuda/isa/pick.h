// SPDX-License-Identifier: Apache-2.0
//
// Chooses the instance of an instruction template by the instruction's types.
#pragma once

#include "softcuda/isa/lift.h"
#include "softcuda/isa/select.h"

namespace ckpt::softcuda::isa::CKPT_ISA {

using ptx::Instruction;
using ptx::Type;

// Whether values of this PTX type are computed as T. Untyped bits (.b32) are unsigned integers.
template <class T>
constexpr bool stands_for(Type t) {
  if constexpr (std::is_same_v<T, bool>) return t == Type::Pred;
  if constexpr (std::is_same_v<T, u8>) return t == Type::U8 || t == Type::B8;
  if constexpr (std::is_same_v<T, u16>) return t == Type::U16 || t == Type::B16;
  if constexpr (std::is_same_v<T, u32>) return t == Type::U32 || t == Type::B32;
  if constexpr (std::is_same_v<T, u64>) return t == Type::U64 || t == Type::B64;
  if constexpr (std::is_same_v<T, i8>) return t == Type::S8;
  if constexpr (std::is_same_v<T, i16>) return t == Type::S16;
  if constexpr (std::is_same_v<T, i32>) return t == Type::S32;
  if constexpr (std::is_same_v<T, i64>) return t == Type::S64;
  if constexpr (std::is_same_v<T, float>) return t == Type::F32;
  if constexpr (std::is_same_v<T, double>) return t == Type::F64;
  if constexpr (std::is_same_v<T, F16>) return t == Type::F16;
  if constexpr (std::is_same_v<T, BF16>) return t == Type::BF16;
  if constexpr (std::is_same_v<T, Pair<F16>>) return t == Type::F16x2;
  if constexpr (std::is_same_v<T, Pair<BF16>>) return t == Type::BF16x2;
  if constexpr (std::is_same_v<T, Pair<u16>>) return t == Type::U16x2;
  if constexpr (std::is_same_v<T, Pair<i16>>) return t == Type::S16x2;
  return false;
}

// F<T>::run for the T among Ts that stands for `type`; nullptr if none does.
template <template <class> class F, class... Ts>
Run pick(Type type) {
  Run found = nullptr;
  ((stands_for<Ts>(type) ? (void)(found = lift<&F<Ts>::run>) : void()), ...);
  return found;
}

// The untyped type of the same size.
inline Type bits_of(Type t) {
  switch (ptx::size_of(t)) {
    case 1: return Type::B8;
    case 2: return Type::B16;
    case 4: return Type::B32;
    case 8: return Type::B64;
    default: return t;
  }
}

// For an instruction with one type for its result and all sources. False: `run` is null.
inline bool uniform(Selected &s, Run run, Type type) {
  s.run = run;
  s.dst = type;
  for (Type &t : s.src) t = type;
  return run != nullptr;
}

// The families of arithmetic. Each returns false if the instruction is not one of its own.
bool select_integer(const Instruction &in, Selected &s);
bool select_bits(const Instruction &in, Selected &s);
bool select_floating(const Instruction &in, Selected &s);
bool select_half(const Instruction &in, Selected &s);
bool select_compare(const Instruction &in, Selected &s);
bool select_convert(const Instruction &in, Selected &s);
bool select_memory(const Instruction &in, Selected &s);

// Selected::aux of floating-point instructions: the mode under which `inner` runs.
enum Mode : u16 { kNearest = 0, kToZero = 1, kDown = 2, kUp = 3, kFlush = 4, kSaturate = 8 };

// The mode that .rn/.rz/.rm/.rp, .ftz and .sat demand.
u16 mode_of(const Instruction &in);
// Wraps s.run unless the mode is the default.
void apply_mode(Selected &s, u16 mode);

}  // namespace ckpt::softcuda::isa::CKPT_ISA

// The families that are compiled once.
namespace ckpt::softcuda::isa::any {
bool select_extended(const ptx::Instruction &in, Selected &s);
bool select_atomic(const ptx::Instruction &in, Selected &s);
bool select_warp(const ptx::Instruction &in, Selected &s);
bool select_control(const ptx::Instruction &in, Selected &s);
bool select_space(const ptx::Instruction &in, Selected &s);
bool select_texture(const ptx::Instruction &in, Selected &s);
bool select_mbarrier(const ptx::Instruction &in, Selected &s);
bool select_cluster(const ptx::Instruction &in, Selected &s);
bool select_wide(const ptx::Instruction &in, Selected &s);
bool select_matrix(const ptx::Instruction &in, Selected &s);
bool select_video(const ptx::Instruction &in, Selected &s);
}  // namespace ckpt::softcuda::isa::any
