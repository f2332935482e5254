// SPDX-License-Identifier: Apache-2.0
//
// Loads and stores of one to eight elements for each lane; conversions between address spaces.
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
                                               const Halves<W, sizeof(T)> &from, u32 k) {
  auto *out = w.row<Register<T, Wide>>(row);
  const char *low = from.host[0] + k * sizeof(T), *high = from.host[1] + k * sizeof(T);
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
                                                const Halves<W, sizeof(T)> &to, u32 k) {
  const auto *in = w.row<Register<T, Wide>>(row);
  for (u32 h = 0; h < 2; ++h, in += kHalf) {
    char *p = to.host[h] + k * sizeof(T);
    if (to.same)
      write(p, from_register<T>(in[kHalf - 1]));
    else if constexpr (sizeof(T) == sizeof *in)
      copy_cells<kHalf * sizeof(T)>(p, in);
    else
      for (u32 i = 0; i < kHalf; ++i) write(p + i * sizeof(T), from_register<T>(in[i]));
  }
}

template <class T, bool Wide, Where W>
[[gnu::noinline]] void load_each(Warp &w, const Op &o, Mask m, const u32 *rows, u32 count) {
  u32 bytes = static_cast<u32>(sizeof(T)) * count;
  auto element = [](const char *p, u32 k) {
    return to_register<T, Wide>(read<T>(p + k * sizeof(T)));
  };
  Each<W> from;
  if (!from.find(w, o, m, bytes, false))
    return for_places<W>(w, o, m, bytes, false, [&](u32 lane, const char *p) {
      for (u32 k = 0; k < count; ++k)
        if (rows[k] != vm::kNoRow) w.row<Register<T, Wide>>(rows[k])[lane] = element(p, k);
    });
  for (u32 k = 0; k < count; ++k) {
    if (rows[k] == vm::kNoRow) continue;
    auto *out = w.row<Register<T, Wide>>(rows[k]);
    for_lanes(m, [&](u32 i) { out[i] = element(from.host + from.offset[i], k); });
  }
}

template <class T, bool Wide, Where W>
[[gnu::noinline]] void store_each(Warp &w, const Op &o, Mask m, const u32 *rows, u32 count) {
  u32 bytes = static_cast<u32>(sizeof(T)) * count;
  auto store_lane = [&](u32 lane, char *p) {
    for (u32 k = 0; k < count; ++k)
      write(p + k * sizeof(T), from_register<T>(w.row<Register<T, Wide>>(rows[k])[lane]));
  };
  Each<W> to;
  if (!to.find(w, o, m, bytes, true)) return for_places<W>(w, o, m, bytes, true, store_lane);
  for (; m != 0; m &= m - 1) {
    u32 lane = static_cast<u32>(std::countr_zero(m));
    store_lane(lane, to.host + to.offset[lane]);
  }
}

// The rows of the elements: one in Op::dst or Op::b, several in a list.
const u32 *rows_of(const Warp &w, const Op &o, const u32 &one) {
  return (o.aux & kCount) == 1 ? &one : w.frame->code->lists.data() + o.list;
}

// Lanes have local memory of their own, so they never access the same bytes of it.
template <Where W>
constexpr bool kOfAllLanes = W == Where::Global || W == Where::Shared;

template <class T, bool Wide, Where W>
[[gnu::noinline]] void load_elements(Warp &w, const Op &o, Mask m) {
  const u32 *rows = rows_of(w, o, o.dst), count = o.aux & kCount;
  Halves<W, sizeof(T)> halves;
  if (!kOfAllLanes<W> || m != kAllLanes || !halves.find(w, o, count, false))
    return load_each<T, Wide, W>(w, o, m, rows, count);
  for (u32 k = 0; k < count; ++k)
    if (rows[k] != vm::kNoRow) load_halves<T, Wide, W>(w, rows[k], halves, k);
}
template <class T, bool Wide, Where W>
[[gnu::noinline]] void store_elements(Warp &w, const Op &o, Mask m) {
  const u32 *rows = rows_of(w, o, o.b), count = o.aux & kCount;
  Halves<W, sizeof(T)> halves;
  if (!kOfAllLanes<W> || m != kAllLanes || !halves.find(w, o, count, true))
    return store_each<T, Wide, W>(w, o, m, rows, count);
  for (u32 k = 0; k < count; ++k) store_halves<T, Wide, W>(w, rows[k], halves, k);
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
    return load_halves<T, false, W>(w, o.dst, halves, 0);
  load_each<T, false, W>(w, o, m, &o.dst, 1);
}
template <class T, Where W>
void store(Warp &w, const Op &o, Mask m) {
  if (o.aux != 1)
    return sizeof(T) < 8 && (o.aux & kWide) != 0 ? store_elements<T, true, W>(w, o, m)
                                                 : store_elements<T, false, W>(w, o, m);
  Halves<W, sizeof(T)> halves;
  if (kOfAllLanes<W> && m == kAllLanes && halves.find(w, o, 1, true))
    return store_halves<T, false, W>(w, o.b, halves, 0);
  store_each<T, false, W>(w, o, m, &o.b, 1);
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

u64 window(ptx::Space space) {
  switch (space) {
    case ptx::Space::Shared: return vm::kSharedWindow;
    case ptx::Space::Local: return vm::kLocalWindow;
    case ptx::Space::Param: return vm::kParamWindow;
    default: return 0;
  }
}

// Adds Op::imm, the start of the state space's window.
void cvta(Warp &w, const Op &o, Mask m) {
  In<u64> a(w, o.a);
  u64 *out = w.row<u64>(o.dst);
  for_lanes(m, [&](u32 i) { out[i] = a[i] + static_cast<u64>(o.imm); });
}

bool select_cvta(const Instruction &in, Selected &s) {
  u64 add = window(in.space());
  uniform(s, &cvta, Type::U64);
  s.imm = static_cast<i64>(in.has("to") ? 0 - add : add);
  return ptx::size_of(in.type()) == 8;
}

u64 window_of(u64 a) {
  for (u64 w : {vm::kSharedWindow, vm::kLocalWindow, vm::kParamWindow})
    if (a - w < vm::kWindowBytes) return w;
  return 0;
}
void isspacep(Warp &w, const Op &o, Mask m) {
  In<u64> a(w, o.a);
  u32 bits = 0;
  for (Mask left = m; left != 0; left &= left - 1) {
    u32 i = static_cast<u32>(std::countr_zero(left));
    bits |= static_cast<u32>(window_of(a[i]) == static_cast<u64>(o.imm)) << i;
  }
  set_bits(w, o.dst, m, bits);
}

bool select_isspacep(const Instruction &in, Selected &s) {
  uniform(s, &isspacep, Type::U64);
  s.dst = Type::Pred;
  s.imm = static_cast<i64>(window(in.space()));
  // Constant and global memory have the same window.
  return in.space() != ptx::Space::Const;
}

void nothing(Warp &, const Op &, Mask) {}

// cp.async [shared], [global]: copies Op::aux bytes. If there is a row b, copies only that number
// of them and clears the rest.
void copy_async(Warp &w, const Op &o, Mask m) {
  In<u32> to(w, o.dst);
  In<u64> from(w, o.a);
  u32 bytes = o.aux;
  for (; m != 0; m &= m - 1) {
    u32 i = static_cast<u32>(std::countr_zero(m));
    u32 target = to[i] + static_cast<u32>(o.imm);
    u64 source = from[i] + o.d;
    u32 wanted = o.b == vm::kNoRow ? bytes : std::min(w.row<u32>(o.b)[i], bytes);
    char *d = place<Where::Shared>(w, o, i, target, bytes, true);
    if (d == nullptr || target % bytes != 0) return report_address(w, o, i, target, bytes, true);
    std::memset(d, 0, bytes);
    if (wanted == 0) continue;
    char *p = place<Where::Global>(w, o, i, source, wanted, false);
    if (p == nullptr) return report_address(w, o, i, source, bytes, false);
    std::memcpy(d, p, wanted);
  }
}

bool select_copy(const Instruction &in, Selected &s) {
  if (in.has("commit_group") || in.has("wait_group") || in.has("wait_all")) {
    s.run = &nothing;
    s.shape = Shape::Ignored;
    return true;
  }
  if (!in.has("ca") && !in.has("cg")) return false;
  s.run = &copy_async;
  s.shape = Shape::Copy;
  s.flow = vm::Flow::Checked;
  return true;
}

}  // namespace

bool select_memory(const Instruction &in, Selected &s) {
  if (in.opcode == "ld" || in.opcode == "ldu") return select_access(in, s, false);
  if (in.opcode == "st") return select_access(in, s, true);
  if (in.opcode == "cvta") return select_cvta(in, s);
  if (in.opcode == "isspacep") return select_isspacep(in, s);
  if (in.opcode == "cp" && in.has("async") && !in.has("bulk") && !in.has("mbarrier"))
    return select_copy(in, s);
  if (in.opcode == "prefetch" || in.opcode == "prefetchu" || in.opcode == "discard" ||
      in.opcode == "applypriority") {
    s.run = &nothing;
    s.shape = Shape::Ignored;
    return true;
  }
  return false;
}

}  // namespace ckpt::softcuda::isa::CKPT_ISA
