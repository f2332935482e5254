// SPDX-License-Identifier: Apache-2.0
//
// Loads and stores of one to eight elements for each lane; conversions between address spaces.
#include "softcuda/isa/place.h"

namespace ckpt::softcuda::isa::CKPT_ISA {

namespace {

// Op::aux: the number of elements. kWide: the registers have 64 bits, the elements fewer.
constexpr u16 kWide = 0x100;
constexpr u16 kCount = 0xff;

template <class T>
void put(Warp &w, u32 row, bool wide, u32 lane, T v) {
  if (row == vm::kNoRow) return;
  if (sizeof(T) < 8 && wide)
    w.row<u64>(row)[lane] = static_cast<u64>(
        std::is_signed_v<T> ? static_cast<i64>(v) : static_cast<i64>(static_cast<u64>(v)));
  else
    w.row<Cell<T>>(row)[lane] = to_cell<T>(v);
}

template <class T>
T take(const Warp &w, u32 row, bool wide, u32 lane) {
  if (sizeof(T) < 8 && wide) return static_cast<T>(w.row<u64>(row)[lane]);
  return from_cell<T>(w.row<Cell<T>>(row)[lane]);
}

const u32 *rows_of(const Warp &w, const Op &o) { return w.frame->code->lists.data() + o.list; }

// The most frequent access: all lanes are active and access consecutive elements of one range.
// Returns the host address of the first, or nullptr if the access is not of this form.
template <class T>
char *contiguous_lanes(Warp &w, const Op &o, Mask m, bool write) {
  bool widens = sizeof(T) == 4 && (o.aux & kWide) != 0;
  if (m != kAllLanes || sizeof(T) < 4 || (o.aux & kCount) != 1 || widens) return nullptr;
  const u64 *a = w.row<u64>(o.a);
  u64 first = a[0], apart = 0;
  for (u32 i = 0; i < kLanes; ++i) apart |= a[i] ^ (first + i * sizeof(T));
  u64 address = first + static_cast<u64>(o.imm);
  const vm::Range &r = w.cache[o.site];
  if (apart != 0 || address % sizeof(T) != 0 || !r.holds(address, kLanes * sizeof(T)))
    return nullptr;
  return !write || r.writable ? r.host(address) : nullptr;
}

template <class T, Where W>
void load(Warp &w, const Op &o, Mask m) {
  u32 count = o.aux & kCount;
  bool wide = o.aux & kWide;
  u32 bytes = static_cast<u32>(sizeof(T)) * count;
  const u32 *rows = count == 1 ? &o.dst : rows_of(w, o);
  if constexpr (W == Where::Global)
    if (const char *p = contiguous_lanes<T>(w, o, m, false)) {
      std::memcpy(w.row<T>(o.dst), p, kLanes * sizeof(T));
      return;
    }
  for_places<W>(w, o, m, bytes, false, [&](u32 lane, const char *p) {
    for (u32 k = 0; k < count; ++k) {
      T v;
      std::memcpy(&v, p + k * sizeof(T), sizeof v);
      put<T>(w, rows[k], wide, lane, v);
    }
  });
}

template <class T, Where W>
void store(Warp &w, const Op &o, Mask m) {
  u32 count = o.aux & kCount;
  bool wide = o.aux & kWide;
  u32 bytes = static_cast<u32>(sizeof(T)) * count;
  const u32 *rows = count == 1 ? &o.b : rows_of(w, o);
  if constexpr (W == Where::Global)
    if (char *p = contiguous_lanes<T>(w, o, m, true)) {
      std::memcpy(p, w.row<T>(o.b), kLanes * sizeof(T));
      return;
    }
  for_places<W>(w, o, m, bytes, true, [&](u32 lane, char *p) {
    for (u32 k = 0; k < count; ++k) {
      T v = take<T>(w, rows[k], wide, lane);
      std::memcpy(p + k * sizeof(T), &v, sizeof v);
    }
  });
}

// Parameters of a kernel. If Op::a is kNoRow, the address is Op::imm.
template <class T>
void load_param(Warp &w, const Op &o, Mask m) {
  u32 count = o.aux & kCount;
  const u32 *rows = count == 1 ? &o.dst : rows_of(w, o);
  const std::vector<std::byte> &params = w.grid->params;
  for (Mask left = m; left != 0; left &= left - 1) {
    u32 i = static_cast<u32>(std::countr_zero(left));
    u64 at = static_cast<u64>(o.imm) + (o.a == vm::kNoRow ? 0 : w.row<u64>(o.a)[i]);
    u64 bytes = sizeof(T) * count;
    if (at > params.size() || bytes > params.size() - at)
      return report_address(w, o, i, at, static_cast<u32>(bytes), false);
    for (u32 k = 0; k < count; ++k) {
      T v;
      std::memcpy(&v, params.data() + at + k * sizeof(T), sizeof v);
      put<T>(w, rows[k], o.aux & kWide, i, v);
    }
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
