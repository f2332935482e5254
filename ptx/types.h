// SPDX-License-Identifier: Apache-2.0
//
// The types and state spaces of PTX (PTX ISA 9.0, sections 5.1 to 5.3).
#pragma once

#include <optional>
#include <string_view>

#include "common/base/bytes.h"

namespace ckpt::ptx {

enum class Type : u8 {
  None,
  Pred,
  B8,
  B16,
  B32,
  B64,
  B128,
  U8,
  U16,
  U32,
  U64,
  S8,
  S16,
  S32,
  S64,
  F16,
  F16x2,
  BF16,
  BF16x2,
  F32,
  F64,
  U16x2,
  S16x2,
  Texture,  // .texref
  Sampler,  // .samplerref
  Surface,  // .surfref
};

enum class Space : u8 { Generic, Register, Global, Shared, Local, Param, Const };

// ".u32" or "u32". No value: the word is not a type.
std::optional<Type> type_named(std::string_view word);
// ".shared", "shared::cta" …
std::optional<Space> space_named(std::string_view word);

// Size in bytes; 0 for a predicate.
size_t size_of(Type type);
bool is_signed(Type type);
bool is_float(Type type);
// Of bits without a meaning: .b8 to .b128.
bool is_untyped(Type type);
// A texture, surface or sampler.
bool is_reference(Type type);
// Whether variables may have it: some types are for instructions alone.
bool is_fundamental(Type type);

}  // namespace ckpt::ptx
