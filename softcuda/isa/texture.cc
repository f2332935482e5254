// SPDX-License-Identifier: Apache-2.0
//
// tex, suld, sust (PTX ISA, "Texture Instructions", "Surface Instructions") on texture and surface
// objects. Op::list: the rows of the values, then those of the coordinates and of what follows.
#include "softcuda/vm/texture.h"

#include "softcuda/isa/pick.h"
#include "softcuda/vm/report.h"

namespace ckpt::softcuda::isa::CKPT_ISA {
namespace {

// Op::aux: the geometry and these flags; Op::d: the number of values; Op::c: bytes of each;
// Op::imm: the number of coordinates. After them, Op::list has the level of detail, or two
// derivatives of each coordinate; Op::dst2 is the predicate that says whether there is memory
// behind the texels.
constexpr u16 kFloatCoordinates = 0x10;
constexpr u16 kOutsideTraps = 0x20;
constexpr u16 kLevel = 0x40;
constexpr u16 kDerivatives = 0x80;

// PTX has the layer before the other coordinates.
vm::Place place_of(const Warp &w, const Op &o, u32 lane) {
  const u32 *rows = w.frame->code->lists.data() + o.list + o.d;
  vm::Place p;
  p.geometry = static_cast<vm::Geometry>(o.aux & 15);
  u32 layered = vm::is_layered(p.geometry) ? 1 : 0, axes = vm::coordinates_of(p.geometry);
  for (u32 k = 0; k < axes && k + layered < static_cast<u32>(o.imm); ++k) {
    u32 bits = w.row<u32>(rows[k + layered])[lane];
    p.whole[k] = static_cast<i32>(bits);
    p.real[k] = std::bit_cast<float>(bits);
  }
  if (layered) p.layer = w.row<u32>(rows[0])[lane];
  if (layered && axes < 3) p.whole[axes] = static_cast<i32>(p.layer);
  return p;
}

vm::Texel fetch_with_derivatives(const Warp &w, const vm::Texture &t, const vm::Place &p,
                                 const u32 *rows, u32 lane) {
  float d[2][3] = {};
  u32 axes = vm::coordinates_of(p.geometry);
  for (u32 k = 0; k < 2 * axes; ++k) d[k / axes][k % axes] = w.row<float>(rows[k])[lane];
  return vm::fetch(t, p, d[0], d[1]);
}

vm::Texel texel_of(const Warp &w, const Op &o, const vm::Texture &t, u32 lane) {
  const u32 *more = w.frame->code->lists.data() + o.list + o.d + o.imm;
  vm::Place p = place_of(w, o, lane);
  if (o.aux & kDerivatives) return fetch_with_derivatives(w, t, p, more, lane);
  if (o.aux & kFloatCoordinates)
    return vm::fetch(t, p, o.aux & kLevel ? w.row<float>(more[0])[lane] : 0);
  return vm::fetch_at(t, p, o.aux & kLevel ? w.row<i32>(more[0])[lane] : 0);
}

void tex(Warp &w, const Op &o, Mask m) {
  const u32 *rows = w.frame->code->lists.data() + o.list;
  if (o.dst2 != vm::kNoRow) w.bits(o.dst2) |= m;
  for (; m != 0; m &= m - 1) {
    u32 i = static_cast<u32>(std::countr_zero(m));
    const vm::Texture *t = vm::texture_of(w, o, w.row<u64>(o.a)[i]);
    if (t == nullptr) return;
    vm::Texel texel = texel_of(w, o, *t, i);
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
  static const char kZeros[64] = {};
  for (; m != 0; m &= m - 1) {
    u32 i = static_cast<u32>(std::countr_zero(m));
    const vm::Texture *t = vm::texture_of(w, o, w.row<u64>(o.a)[i]);
    if (t == nullptr) return;
    vm::Place place = place_of(w, o, i);
    char *p = vm::surface_element(*t, place, o.c * o.d);
    if (p == nullptr && (o.aux & kOutsideTraps)) return vm::report_outside(w, o, place.whole);
    for (u32 k = 0; k < o.d; ++k) {
      if (!Store) to_row(w, rows[k], i, p == nullptr ? kZeros : p + k * o.c, o.c);
      if (Store && p != nullptr) from_row(w, rows[k], i, p + k * o.c, o.c);
    }
  }
}

bool geometry_of(const Instruction &in, u16 &out) {
  constexpr std::pair<std::string_view, vm::Geometry> kNames[] = {
      {"1d", vm::Geometry::D1},
      {"2d", vm::Geometry::D2},
      {"3d", vm::Geometry::D3},
      {"a1d", vm::Geometry::Layered1},
      {"a2d", vm::Geometry::Layered2},
      {"cube", vm::Geometry::Cube},
      {"acube", vm::Geometry::LayeredCube}};
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
    if (in.has("level")) s.aux |= kLevel;
    if (in.has("grad")) s.aux |= kDerivatives;
    if (in.has("grad") && s.src[0] != Type::F32) return false;
    return ptx::size_of(s.dst) == 4;
  }
  if (!in.has("b") || in.has("clamp")) return false;
  s.shape = Shape::Surface;
  s.run = surface_store ? &surface<true> : &surface<false>;
  if (in.has("trap")) s.aux |= kOutsideTraps;
  return true;
}

}  // namespace ckpt::softcuda::isa::CKPT_ISA
