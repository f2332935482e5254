// SPDX-License-Identifier: Apache-2.0
//
// Loads and stores of one to eight elements for each lane.
#include <algorithm>

#include "softcuda/isa/together.h"

namespace ckpt::softcuda::isa::CKPT_ISA {

namespace {

// Op::aux: the number of elements. kWide: the registers have 64 bits, the elements fewer.
constexpr u16 kWide = 0x100;
constexpr u16 kCount = 0xff;

// The register that an element of type T is loaded to or stored from.
template <class T, bool Wide>
using Register = std::conditional_t<Wide, u64, Cell<T>>;

template <class T, bool Wide>
Register<T, Wide> to_register(T v) {
  if constexpr (Wide && std::is_signed_v<T>)
    return static_cast<u64>(i64{v});
  else if constexpr (Wide)
    return v;
  else
    return to_cell<T>(v);
}
template <class T>
T from_register(u32 cell) {
  return from_cell<T>(static_cast<Cell<T>>(cell));
}
template <class T>
T from_register(u64 cell) {
  return static_cast<T>(cell);
}

template <class T>
T read(const char *p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}
template <class T>
void write(char *p, T v) {
  std::memcpy(p, &v, sizeof v);
}

// The elements of one lane.
template <class T>
struct Elements {
  static constexpr u32 kMost = std::max<u32>(8, 16 / sizeof(T));
  alignas(16) T all[kMost];
};

template <class T>
[[gnu::always_inline]] inline void copy_one(void *to, const void *from) {
  write(static_cast<char *>(to), read<T>(static_cast<const char *>(from)));
}

// Copies the elements of one lane. A vector of up to 16 bytes is read and written as a whole. PTX
// does not promise that, but GPUs do it, and CUB's scans rely on it: they publish a state and a
// value as one vector of 16 bytes. A processor with AVX guarantees it for 16 aligned bytes (Intel
// SDM, volume 3, "Guaranteed Atomic Operations").
[[gnu::always_inline]] inline void copy_elements(void *to, const void *from, u32 bytes) {
  switch (bytes) {
    case 1: return copy_one<u8>(to, from);
    case 2: return copy_one<u16>(to, from);
    case 4: return copy_one<u32>(to, from);
    case 8: return copy_one<u64>(to, from);
    default:
      for (u32 i = 0; i < bytes; i += sizeof(__m128i))
        copy_one<__m128i>(static_cast<char *>(to) + i, static_cast<const char *>(from) + i);
  }
}

// Copies a part of a row. In pieces of 32 bytes, as most instructions read and write rows: a
// processor forwards a store to a load only if the store has all bytes of the load, and the copy
// that the compiler makes of std::memcpy stores 16 bytes at a time.
using Piece [[gnu::vector_size(32), gnu::aligned(1), gnu::may_alias]] = u64;
template <size_t Bytes>
[[gnu::always_inline]] inline void copy_cells(void *to, const void *from) {
  static_assert(Bytes % sizeof(Piece) == 0);
  Piece *out = static_cast<Piece *>(to);
  const Piece *in = static_cast<const Piece *>(from);
  for (size_t i = 0; i < Bytes / sizeof(Piece); ++i) out[i] = in[i];
}

template <class T, bool Wide, Where W>
[[gnu::always_inline]] inline void load_halves(const Warp &w, u32 row,
                                               const Halves<W, sizeof(T)> &from) {
  auto *out = w.row<Register<T, Wide>>(row);
  const char *low = from.host[0], *high = from.host[1];
  auto element = [](const char *p) { return to_register<T, Wide>(read<T>(p)); };
  if (from.same) {
    auto l = element(low), h = element(high);
    for_lanes(kAllLanes, [&](u32 i) { out[i] = i < kHalf ? l : h; });
  } else if constexpr (sizeof(T) == sizeof *out) {
    copy_cells<kHalf * sizeof(T)>(out, low);
    copy_cells<kHalf * sizeof(T)>(out + kHalf, high);
  } else {
    for (u32 i = 0; i < kHalf; ++i) out[i] = element(low + i * sizeof(T));
    for (u32 i = 0; i < kHalf; ++i) out[kHalf + i] = element(high + i * sizeof(T));
  }
}

// Of lanes that store to the same address, the last one remains.
template <class T, bool Wide, Where W>
[[gnu::always_inline]] inline void store_halves(const Warp &w, u32 row,
                                                const Halves<W, sizeof(T)> &to) {
  const auto *in = w.row<Register<T, Wide>>(row);
  for (u32 h = 0; h < 2; ++h, in += kHalf) {
    char *p = to.host[h];
    if (to.same)
      write(p, from_register<T>(in[kHalf - 1]));
    else if constexpr (sizeof(T) == sizeof *in)
      copy_cells<kHalf * sizeof(T)>(p, in);
    else
      for (u32 i = 0; i < kHalf; ++i) write(p + i * sizeof(T), from_register<T>(in[i]));
  }
}

template <class T, bool Wide, Where W>
[[gnu::noinline]] void load_each(Warp &w, const Op &o, Mask m, u32 row) {
  auto *out = w.row<Register<T, Wide>>(row);
  auto element = [](const char *p) { return to_register<T, Wide>(read<T>(p)); };
  Each<W> from;
  if (!from.find(w, o, m, sizeof(T), false))
    return for_places<W>(w, o, m, sizeof(T), false,
                         [&](u32 lane, const char *p) { out[lane] = element(p); });
  for_lanes(m, [&](u32 i) { out[i] = element(from.host + from.offset[i]); });
}

template <class T, bool Wide, Where W>
[[gnu::noinline]] void store_each(Warp &w, const Op &o, Mask m, u32 row) {
  const auto *in = w.row<Register<T, Wide>>(row);
  Each<W> to;
  if (!to.find(w, o, m, sizeof(T), true))
    return for_places<W>(w, o, m, sizeof(T), true,
                         [&](u32 lane, char *p) { write(p, from_register<T>(in[lane])); });
  for (; m != 0; m &= m - 1) {
    u32 lane = static_cast<u32>(std::countr_zero(m));
    write(to.host + to.offset[lane], from_register<T>(in[lane]));
  }
}

// Calls access(lane, host address) for each lane in `m`, if the lane may access these `bytes`
// bytes.
template <Where W, class F>
[[gnu::always_inline]] inline void for_vectors(Warp &w, const Op &o, Mask m, u32 bytes, bool write,
                                               F access) {
  Each<W> each;
  if (!each.find(w, o, m, bytes, write)) return for_places<W>(w, o, m, bytes, write, access);
  for (; m != 0; m &= m - 1) {
    u32 lane = static_cast<u32>(std::countr_zero(m));
    access(lane, each.host + each.offset[lane]);
  }
}

// The rows that hold vectors: row k has element k of each lane's vector.
template <class T, bool Wide>
struct Rows {
  const Warp &w;
  const u32 *rows;
  u32 count;

  u32 bytes() const { return static_cast<u32>(sizeof(T)) * count; }
  // Lanes [first, first + lanes) get the elements at `p`.
  void load(u32 first, u32 lanes, const char *p) const {
    Elements<T> v;
    copy_elements(v.all, p, bytes());
    for (u32 k = 0; k < count; ++k)
      if (rows[k] != vm::kNoRow)
        std::fill_n(w.row<Register<T, Wide>>(rows[k]) + first, lanes,
                    to_register<T, Wide>(v.all[k]));
  }
  void store(u32 lane, char *p) const {
    Elements<T> v;
    for (u32 k = 0; k < count; ++k)
      v.all[k] = from_register<T>(w.row<Register<T, Wide>>(rows[k])[lane]);
    copy_elements(p, v.all, bytes());
  }
};

// The rows of the elements: one in Op::dst or Op::b, several in a list.
const u32 *rows_of(const Warp &w, const Op &o, const u32 &one) {
  return (o.aux & kCount) == 1 ? &one : w.frame->code->lists.data() + o.list;
}

// Lanes have local memory of their own, so they never access the same bytes of it.
template <Where W>
constexpr bool kOfAllLanes = W == Where::Global || W == Where::Shared;

template <class T, bool Wide, Where W>
[[gnu::noinline]] void load_elements(Warp &w, const Op &o, Mask m) {
  const Rows<T, Wide> rows{w, rows_of(w, o, o.dst), static_cast<u32>(o.aux & kCount)};
  Halves<W, sizeof(T)> halves;
  if (!kOfAllLanes<W> || m != kAllLanes || !halves.find(w, o, rows.count, false))
    return for_vectors<W>(w, o, m, rows.bytes(), false,
                          [&](u32 lane, const char *p) { rows.load(lane, 1, p); });
  if (!halves.same && rows.rows[0] != vm::kNoRow)  // so it is one element
    return load_halves<T, Wide, W>(w, rows.rows[0], halves);
  for (u32 h = 0; h < 2; ++h) rows.load(h * kHalf, kHalf, halves.host[h]);
}
template <class T, bool Wide, Where W>
[[gnu::noinline]] void store_elements(Warp &w, const Op &o, Mask m) {
  const Rows<T, Wide> rows{w, rows_of(w, o, o.b), static_cast<u32>(o.aux & kCount)};
  Halves<W, sizeof(T)> halves;
  if (!kOfAllLanes<W> || m != kAllLanes || !halves.find(w, o, rows.count, true))
    return for_vectors<W>(w, o, m, rows.bytes(), true,
                          [&](u32 lane, char *p) { rows.store(lane, p); });
  if (!halves.same) return store_halves<T, Wide, W>(w, rows.rows[0], halves);
  for (u32 h = 0; h < 2; ++h) rows.store(h * kHalf + kHalf - 1, halves.host[h]);
}

// Nearly all accesses are of one element in a register of its size. With the other cases in
// functions of their own, the compiler saves no registers for these.
template <class T, Where W>
void load(Warp &w, const Op &o, Mask m) {
  if (o.aux != 1 || o.dst == vm::kNoRow)
    return sizeof(T) < 8 && (o.aux & kWide) != 0 ? load_elements<T, true, W>(w, o, m)
                                                 : load_elements<T, false, W>(w, o, m);
  Halves<W, sizeof(T)> halves;
  if (kOfAllLanes<W> && m == kAllLanes && halves.find(w, o, 1, false))
    return load_halves<T, false, W>(w, o.dst, halves);
  load_each<T, false, W>(w, o, m, o.dst);
}
template <class T, Where W>
void store(Warp &w, const Op &o, Mask m) {
  if (o.aux != 1)
    return sizeof(T) < 8 && (o.aux & kWide) != 0 ? store_elements<T, true, W>(w, o, m)
                                                 : store_elements<T, false, W>(w, o, m);
  Halves<W, sizeof(T)> halves;
  if (kOfAllLanes<W> && m == kAllLanes && halves.find(w, o, 1, true))
    return store_halves<T, false, W>(w, o.b, halves);
  store_each<T, false, W>(w, o, m, o.b);
}

template <class T>
void put(const Warp &w, u32 row, bool wide, u32 lane, T v) {
  if (row == vm::kNoRow) return;
  if (wide)
    w.row<u64>(row)[lane] = to_register<T, true>(v);
  else
    w.row<Cell<T>>(row)[lane] = to_cell<T>(v);
}

// Parameters of a kernel at Op::imm, the same for all lanes.
template <class T>
void load_same_param(Warp &w, const Op &o, Mask m) {
  u32 count = o.aux & kCount, bytes = static_cast<u32>(sizeof(T)) * count;
  const u32 *rows = rows_of(w, o, o.dst);
  const std::vector<std::byte> &params = w.grid->params;
  u64 at = static_cast<u64>(o.imm);
  if (at > params.size() || bytes > params.size() - at)
    return report_address(w, o, static_cast<u32>(std::countr_zero(m)), at, bytes, false);
  for (u32 k = 0; k < count; ++k) {
    T v = read<T>(reinterpret_cast<const char *>(params.data()) + at + k * sizeof(T));
    for_lanes(m, [&](u32 i) { put<T>(w, rows[k], o.aux & kWide, i, v); });
  }
}

// Parameters of a kernel. If Op::a is kNoRow, the address is Op::imm.
template <class T>
void load_param(Warp &w, const Op &o, Mask m) {
  if (o.a == vm::kNoRow) return load_same_param<T>(w, o, m);
  u32 count = o.aux & kCount;
  const u32 *rows = rows_of(w, o, o.dst);
  const std::vector<std::byte> &params = w.grid->params;
  for (Mask left = m; left != 0; left &= left - 1) {
    u32 i = static_cast<u32>(std::countr_zero(left));
    u64 at = static_cast<u64>(o.imm) + w.row<u64>(o.a)[i];
    u64 bytes = sizeof(T) * count;
    if (at > params.size() || bytes > params.size() - at)
      return report_address(w, o, i, at, static_cast<u32>(bytes), false);
    for (u32 k = 0; k < count; ++k)
      put<T>(w, rows[k], o.aux & kWide, i,
             read<T>(reinterpret_cast<const char *>(params.data()) + at + k * sizeof(T)));
  }
}

template <Where W, class... Ts>
Run store_by_type(Type t) {
  Run found = nullptr;
  ((stands_for<Ts>(t) ? (void)(found = &store<Ts, W>) : void()), ...);
  return found;
}
template <Where W, class... Ts>
Run load_by_type(Type t) {
  Run found = nullptr;
  ((stands_for<Ts>(t) ? (void)(found = &load<Ts, W>) : void()), ...);
  return found;
}
// A load to a wider register extends the sign, so signed types differ.
template <Where W>
Run by_type(Type t, bool write) {
  if (write) return store_by_type<W, u8, u16, u32, u64>(bits_of(t));
  return load_by_type<W, u8, u16, u32, u64, i8, i16, i32>(t);
}

template <class... Ts>
Run param_by_type(Type t) {
  Run found = nullptr;
  ((stands_for<Ts>(t) ? (void)(found = &load_param<Ts>) : void()), ...);
  return found;
}

// Floats and 64-bit values are moved as untyped bits.
Type moved(Type t) { return ptx::is_float(t) || ptx::size_of(t) == 8 ? bits_of(t) : t; }

// PTX uses .param both for a kernel's parameters (Space::Param here) and for variables in a
// function's frame (Space::Register here).
Run access(ptx::Space space, Type t, bool write) {
  t = moved(t);
  switch (space) {
    case ptx::Space::Shared: return by_type<Where::Shared>(t, write);
    case ptx::Space::Local: return by_type<Where::Local>(t, write);
    case ptx::Space::Register: return by_type<Where::Frame>(t, write);
    case ptx::Space::Param:
      return write ? nullptr : param_by_type<u8, u16, u32, u64, i8, i16, i32>(t);
    default: return by_type<Where::Global>(t, write);
  }
}

u16 vector_of(const Instruction &in) {
  return in.has("v2") ? 2 : in.has("v4") ? 4 : in.has("v8") ? 8 : 1;
}

bool select_access(const Instruction &in, Selected &s, bool write) {
  if (in.has("async") || in.has("bulk")) return false;
  Type t = in.type();
  uniform(s, access(in.space(), t, write), t);
  // For .param the decoder chooses between the two; a store is always to a frame.
  if (in.space() == ptx::Space::Param) {
    s.run = access(write ? ptx::Space::Register : ptx::Space::Param, t, write);
    s.inner = access(ptx::Space::Register, t, write);
  }
  s.shape = write ? Shape::Store : Shape::Load;
  s.flow = vm::Flow::Checked;
  s.aux = vector_of(in);
  return s.run != nullptr;
}

}  // namespace

bool select_memory(const Instruction &in, Selected &s) {
  if (in.opcode == "ld" || in.opcode == "ldu") return select_access(in, s, false);
  return in.opcode == "st" && select_access(in, s, true);
}

}  // namespace ckpt::softcuda::isa::CKPT_ISA
