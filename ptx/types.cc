// SPDX-License-Identifier: Apache-2.0
#include "ptx/types.h"

#include <array>

namespace ckpt::ptx {
namespace {

struct TypeName {
  std::string_view name;
  Type type;
  size_t bytes;
};

constexpr std::array kTypes{
    TypeName{"pred", Type::Pred, 0},      TypeName{"b8", Type::B8, 1},
    TypeName{"b16", Type::B16, 2},        TypeName{"b32", Type::B32, 4},
    TypeName{"b64", Type::B64, 8},        TypeName{"b128", Type::B128, 16},
    TypeName{"u8", Type::U8, 1},          TypeName{"u16", Type::U16, 2},
    TypeName{"u32", Type::U32, 4},        TypeName{"u64", Type::U64, 8},
    TypeName{"s8", Type::S8, 1},          TypeName{"s16", Type::S16, 2},
    TypeName{"s32", Type::S32, 4},        TypeName{"s64", Type::S64, 8},
    TypeName{"f16", Type::F16, 2},        TypeName{"f16x2", Type::F16x2, 4},
    TypeName{"bf16", Type::BF16, 2},      TypeName{"bf16x2", Type::BF16x2, 4},
    TypeName{"f32", Type::F32, 4},        TypeName{"f64", Type::F64, 8},
    TypeName{"u16x2", Type::U16x2, 4},    TypeName{"s16x2", Type::S16x2, 4},
    TypeName{"texref", Type::Texture, 8}, TypeName{"samplerref", Type::Sampler, 8},
    TypeName{"surfref", Type::Surface, 8}};

struct SpaceName {
  std::string_view name;
  Space space;
};

constexpr std::array kSpaces{
    SpaceName{"global", Space::Global},      SpaceName{"shared", Space::Shared},
    SpaceName{"shared::cta", Space::Shared}, SpaceName{"shared::cluster", Space::Shared},
    SpaceName{"local", Space::Local},        SpaceName{"param", Space::Param},
    SpaceName{"param::entry", Space::Param}, SpaceName{"param::func", Space::Param},
    SpaceName{"const", Space::Const},        SpaceName{"reg", Space::Register}};

std::string_view without_dot(std::string_view word) {
  return word.starts_with('.') ? word.substr(1) : word;
}

}  // namespace

std::optional<Type> type_named(std::string_view word) {
  for (const TypeName &t : kTypes)
    if (t.name == without_dot(word)) return t.type;
  return {};
}

std::optional<Space> space_named(std::string_view word) {
  for (const SpaceName &s : kSpaces)
    if (s.name == without_dot(word)) return s.space;
  return {};
}

size_t size_of(Type type) {
  for (const TypeName &t : kTypes)
    if (t.type == type) return t.bytes;
  return 0;
}

bool is_signed(Type type) {
  return type == Type::S8 || type == Type::S16 || type == Type::S32 || type == Type::S64;
}

bool is_float(Type type) { return type >= Type::F16 && type <= Type::F64; }

bool is_untyped(Type type) { return type >= Type::B8 && type <= Type::B128; }

bool is_reference(Type type) { return type >= Type::Texture; }

bool is_fundamental(Type type) {
  return type != Type::None && type != Type::BF16 && type != Type::BF16x2 && type != Type::U16x2 &&
         type != Type::S16x2;
}

}  // namespace ckpt::ptx
