// SPDX-License-Identifier: Apache-2.0
//
// tex, suld, sust (PTX ISA, "Texture Instructions", "Surface Instructions") on texture and surface
// objects. Op::list: the rows of the values, then those of the coordinates.
#include "softcuda/vm/texture.h"

#include "softcuda/isa/pick.h"
#include "softcuda/vm/report.h"

namespace ckpt::softcuda::isa::CKPT_ISA {
namespace {

// Op::aux: the geometry and these flags; Op::d: the number of values; Op::c: bytes of each.
constexpr u16 kFloatCoordinates = 0x10;
constexpr u16 kOutsideTraps = 0x20;

struct Coordinates {
  i32 whole[4] = {};
  float real[3] = {};
  u32 layer = 0;
};

// PTX has the layer before the other coordinates; vm::surface_element expects it after them.
Coordinates coordinates_of(const Warp &w, const Op &o, u32 lane, u32 count) {
  const u32 *rows = w.frame->code->lists.data() + o.list + o.d;
  Coordinates c;
  u32 v[4] = {};
  for (u32 k = 0; k < count; ++k) v[k] = w.row<u32>(rows[k])[lane];
  vm::Geometry g = static_cast<vm::Geometry>(o.aux & 15);
  bool layered = g == vm::Geometry::Layered1 || g == vm::Geometry::Layered2;
  u32 axes = layered ? (g == vm::Geometry::Layered1 ? 1 : 2) : count;
  if (layered) c.layer = v[0];
  for (u32 k = 0; k < axes && k < 3; ++k) {
    u32 bits = v[k + layered];
    c.whole[k] = static_cast<i32>(bits);
    c.real[k] = std::bit_cast<float>(bits);
  }
  if (layered) c.whole[axes] = static_cast<i32>(c.layer);
  return c;
}

void tex(Warp &w, const Op &o, Mask m) {
  const u32 *rows = w.frame->code->lists.data() + o.list;
  vm::Geometry g = static_cast<vm::Geometry>(o.aux & 15);
  for (; m != 0; m &= m - 1) {
    u32 i = static_cast<u32>(std::countr_zero(m));
    const vm::Texture *t = vm::texture_of(w, o, w.row<u64>(o.a)[i]);
    if (t == nullptr) return;
    Coordinates c = coordinates_of(w, o, i, static_cast<u32>(o.imm));
    vm::Texel texel = o.aux & kFloatCoordinates ? vm::fetch(*t, g, c.real, c.layer)
                                                : vm::fetch_at(*t, g, c.whole, c.layer);
    for (u32 k = 0; k < o.d; ++k)
      if (rows[k] != vm::kNoRow) w.row<u32>(rows[k])[i] = texel.value[k];
  }
}

void to_row(Warp &w, u32 row, u32 lane, const char *p, u32 bytes) {
  if (row == vm::kNoRow) return;
  u64 v = 0;
  std::memcpy(&v, p, bytes);
  if (bytes == 8)
    w.row<u64>(row)[lane] = v;
  else
    w.row<u32>(row)[lane] = static_cast<u32>(v);
}

void from_row(const Warp &w, u32 row, u32 lane, char *p, u32 bytes) {
  u64 v = bytes == 8 ? w.row<u64>(row)[lane] : w.row<u32>(row)[lane];
  std::memcpy(p, &v, bytes);
}

template <bool Store>
void surface(Warp &w, const Op &o, Mask m) {
  const u32 *rows = w.frame->code->lists.data() + o.list;
  vm::Geometry g = static_cast<vm::Geometry>(o.aux & 15);
  static const char kZeros[64] = {};
  for (; m != 0; m &= m - 1) {
    u32 i = static_cast<u32>(std::countr_zero(m));
    const vm::Texture *t = vm::texture_of(w, o, w.row<u64>(o.a)[i]);
    if (t == nullptr) return;
    Coordinates c = coordinates_of(w, o, i, static_cast<u32>(o.imm));
    char *p = vm::surface_element(*t, g, c.whole, o.c * o.d);
    if (p == nullptr && (o.aux & kOutsideTraps)) return vm::report_outside(w, o, c.whole);
    for (u32 k = 0; k < o.d; ++k) {
      if (!Store) to_row(w, rows[k], i, p == nullptr ? kZeros : p + k * o.c, o.c);
      if (Store && p != nullptr) from_row(w, rows[k], i, p + k * o.c, o.c);
    }
  }
}

bool geometry_of(const Instruction &in, u16 &out) {
  constexpr std::pair<std::string_view, vm::Geometry> kNames[] = {{"1d", vm::Geometry::D1},
                                                                  {"2d", vm::Geometry::D2},
                                                                  {"3d", vm::Geometry::D3},
                                                                  {"a1d", vm::Geometry::Layered1},
                                                                  {"a2d", vm::Geometry::Layered2}};
  for (auto [name, g] : kNames)
    if (in.has(name)) {
      out = static_cast<u16>(g);
      return true;
    }
  return false;
}

}  // namespace

bool select_texture(const Instruction &in, Selected &s) {
  bool surface_load = in.opcode == "suld", surface_store = in.opcode == "sust";
  if (in.opcode != "tex" && !surface_load && !surface_store) return false;
  if (!geometry_of(in, s.aux)) return false;
  s.flow = vm::Flow::Checked;
  s.dst = in.type(0);
  if (in.opcode == "tex") {
    s.shape = Shape::Texture;
    s.run = &tex;
    s.src[0] = in.type(1);
    if (s.src[0] == Type::F32) s.aux |= kFloatCoordinates;
    return ptx::size_of(s.dst) == 4;
  }
  if (!in.has("b") || in.has("clamp")) return false;
  s.shape = Shape::Surface;
  s.run = surface_store ? &surface<true> : &surface<false>;
  if (in.has("trap")) s.aux |= kOutsideTraps;
  return true;
}

}  // namespace ckpt::softcuda::isa::CKPT_ISA
