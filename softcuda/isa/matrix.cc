// SPDX-License-Identifier: Apache-2.0
//
// Products of small matrices by a whole warp: wmma.*, mma.sync, ldmatrix, stmatrix (PTX ISA, "Warp
// Level Matrix Multiply-Accumulate Instructions"). For mma, PTX documents which lane holds which
// element; for wmma the implementation chooses. Sums are computed in double and rounded once, which
// is within the precision that PTX guarantees but may differ from a device in the last bits.
#include <algorithm>
#include <cmath>
#include <limits>

#include "softcuda/isa/narrow.h"
#include "softcuda/isa/place.h"

namespace ckpt::softcuda::isa::any {
namespace {

enum class ElementType : u8 { F16, BF16, TF32, S8, U8, F64, F32, S32 };
enum class Role : u8 { A, B, C };

// Op::imm.
struct Form {
  u8 m = 0, n = 0, k = 0;
  ElementType a : 4 = ElementType::F16;
  ElementType b : 4 = ElementType::F16;
  ElementType c : 4 = ElementType::F32;
  ElementType d : 4 = ElementType::F32;
  Role role : 2 = Role::A;  // of the matrix that is loaded or stored; `a` is its type
  bool columns : 1 = false;
  bool documented : 1 = false;  // mma: PTX defines the layout
  bool saturate : 1 = false;
  u8 : 0;
  u16 unused = 0;
};
static_assert(sizeof(Form) == 8);

Form form_of(const Op &o) { return std::bit_cast<Form>(o.imm); }

u32 bits_of_element(ElementType k) {
  switch (k) {
    case ElementType::F16:
    case ElementType::BF16: return 16;
    case ElementType::S8:
    case ElementType::U8: return 8;
    case ElementType::F64: return 64;
    default: return 32;
  }
}
u32 per_register(ElementType k) { return std::max(1u, 32 / bits_of_element(k)); }

constexpr u32 kMaxElements = 32 * 16;
using Matrix = double[kMaxElements];

u32 rows_of(const Form &f, Role r) { return r == Role::B ? f.k : f.m; }
u32 columns_of(const Form &f, Role r) { return r == Role::A ? f.k : f.n; }

// The index, row by row, of the j-th of a lane's `count` elements.
u32 index_of(const Form &f, Role role, ElementType type, u32 lane, u32 j, u32 count) {
  u32 columns = columns_of(f, role);
  if (!f.documented) return (lane * count + j) % (rows_of(f, role) * columns);
  u32 group = lane >> 2, thread = lane & 3, each = per_register(type);
  u32 reg = j / each, within = j % each;
  if (role == Role::C) return (group + 8 * (j >> 1)) * columns + thread * 2 + (j & 1);
  if (role == Role::B) return (thread * each + within + reg * 4 * each) * columns + group;
  u32 row = f.m == 16 ? group + 8 * (reg & 1) : group;
  u32 step = f.m == 16 ? reg >> 1 : reg;
  return row * columns + thread * each + within + step * 4 * each;
}

double decode(ElementType type, u64 bits) {
  switch (type) {
    case ElementType::F16: return widen(F16{static_cast<u16>(bits)});
    case ElementType::BF16: return widen(BF16{static_cast<u16>(bits)});
    // tf32 ignores the lower 13 bits.
    case ElementType::TF32: return std::bit_cast<float>(static_cast<u32>(bits) & ~0x1fffu);
    case ElementType::F32: return std::bit_cast<float>(static_cast<u32>(bits));
    case ElementType::F64: return std::bit_cast<double>(bits);
    case ElementType::S8: return static_cast<i8>(bits);
    case ElementType::U8: return static_cast<u8>(bits);
    case ElementType::S32: return static_cast<i32>(bits);
  }
  return 0;
}

// A double holds these integers exactly. The result wraps or is clamped.
u32 whole(double v, bool saturate) {
  using L = std::numeric_limits<i32>;
  if (saturate)
    return static_cast<u32>(static_cast<i32>(std::clamp<double>(v, L::min(), L::max())));
  return static_cast<u32>(static_cast<i64>(v));
}

u64 encode(ElementType type, double v, bool saturate) {
  switch (type) {
    case ElementType::F16: return narrow<F16>(v).bits;
    case ElementType::BF16: return narrow<BF16>(v).bits;
    case ElementType::F64: return std::bit_cast<u64>(v);
    case ElementType::S8:
    case ElementType::U8:
    case ElementType::S32: return whole(v, saturate);
    default: return std::bit_cast<u32>(static_cast<float>(v));
  }
}

u64 cell(const Warp &w, u32 row, ElementType type, u32 lane) {
  return type == ElementType::F64 ? w.row<u64>(row)[lane] : w.row<u32>(row)[lane];
}

u64 bits_at(const Warp &w, const u32 *rows, ElementType type, u32 lane, u32 j) {
  u32 each = per_register(type), bits = bits_of_element(type);
  u64 v = cell(w, rows[j / each], type, lane) >> (each == 1 ? 0 : j % each * bits);
  return bits == 64 ? v : v & ((1ull << bits) - 1);
}

void put_bits(Warp &w, const u32 *rows, ElementType type, u32 lane, u32 j, u64 v) {
  u32 each = per_register(type), row = rows[j / each];
  if (row == vm::kNoRow) return;
  if (type == ElementType::F64) {
    w.row<u64>(row)[lane] = v;
    return;
  }
  u32 bits = bits_of_element(type), shift = each == 1 ? 0 : j % each * bits;
  u32 mask = static_cast<u32>((1ull << bits) - 1) << shift;
  u32 &c = w.row<u32>(row)[lane];
  c = (c & ~mask) | (static_cast<u32>(v) << shift & mask);
}

const u32 *lists_of(const Warp &w, const Op &o) { return w.frame->code->lists.data() + o.list; }

// Matrix instructions need all lanes of the warp.
bool complete(Warp &w, const Op &o, Mask m) {
  if (m == kAllLanes) return true;
  w.fail(vm::FaultKind::Unsupported, o,
         "some lanes of the warp do not execute this matrix instruction");
  return false;
}

void gather(const Warp &w, const Form &f, Role role, ElementType type, const u32 *rows,
            u32 registers, Matrix &out) {
  u32 count = registers * per_register(type);
  for (u32 lane = 0; lane < kLanes; ++lane)
    for (u32 j = 0; j < count; ++j)
      out[index_of(f, role, type, lane, j, count)] = decode(type, bits_at(w, rows, type, lane, j));
}

void multiply(const Form &f, const Matrix &a, const Matrix &b, Matrix &c) {
  for (u32 i = 0; i < f.m; ++i)
    for (u32 j = 0; j < f.n; ++j) {
      double sum = c[i * f.n + j];
      for (u32 k = 0; k < f.k; ++k) sum = std::fma(a[i * f.k + k], b[k * f.n + j], sum);
      c[i * f.n + j] = sum;
    }
}

// Op::aux: the number of registers of d, a, b and c, minus one, in four bits each.
void mma(Warp &w, const Op &o, Mask m) {
  if (!complete(w, o, m)) return;
  Form f = form_of(o);
  Matrix a = {}, b = {}, c = {};
  auto registers = [&](u32 which) { return (o.aux >> (4 * which) & 15u) + 1; };
  const u32 *rows_d = lists_of(w, o), *rows_a = rows_d + registers(0);
  const u32 *rows_b = rows_a + registers(1), *rows_c = rows_b + registers(2);
  gather(w, f, Role::A, f.a, rows_a, registers(1), a);
  gather(w, f, Role::B, f.b, rows_b, registers(2), b);
  gather(w, f, Role::C, f.c, rows_c, registers(3), c);
  multiply(f, a, b, c);
  u32 count = registers(0) * per_register(f.d);
  for (u32 lane = 0; lane < kLanes; ++lane)
    for (u32 j = 0; j < count; ++j)
      put_bits(w, rows_d, f.d, lane, j,
               encode(f.d, c[index_of(f, Role::C, f.d, lane, j, count)], f.saturate));
}

// wmma.load, wmma.store: rows or columns of the matrix in memory are `stride` elements apart.
template <Where W, bool Store>
void matrix_memory(Warp &w, const Op &o, Mask m) {
  if (!complete(w, o, m)) return;
  Form f = form_of(o);
  const u32 *rows = lists_of(w, o);
  u32 count = o.aux * per_register(f.a), bytes = bits_of_element(f.a) / 8;
  u32 columns = columns_of(f, f.role), line = f.columns ? rows_of(f, f.role) : columns;
  In<Address<W>> at(w, o.a);
  for (u32 lane = 0; lane < kLanes; ++lane) {
    u32 stride = o.b == vm::kNoRow ? line : w.row<u32>(o.b)[lane];
    for (u32 j = 0; j < count; ++j) {
      u32 index = index_of(f, f.role, f.a, lane, j, count), r = index / columns,
          c = index % columns;
      u64 element = f.columns ? u64{c} * stride + r : u64{r} * stride + c;
      u64 address = at[lane] + o.d + element * bytes;
      char *p = place<W>(w, o, lane, address, bytes, Store);
      if (p == nullptr || address % bytes != 0)
        return report_address(w, o, lane, address, bytes, Store);
      u64 v = Store ? bits_at(w, rows, f.a, lane, j) : 0;
      if (Store) {
        std::memcpy(p, &v, bytes);
      } else {
        std::memcpy(&v, p, bytes);
        put_bits(w, rows, f.a, lane, j, v);
      }
    }
  }
}

// ldmatrix, stmatrix: lane 8 k + r has the address of row r of the k-th 8 by 8 matrix of 16 bits.
template <Where W, bool Store>
void rows_of_matrices(Warp &w, const Op &o, Mask m) {
  if (!complete(w, o, m)) return;
  Form f = form_of(o);
  const u32 *rows = lists_of(w, o);
  In<Address<W>> at(w, o.a);
  for (u32 k = 0; k < o.aux; ++k) {
    char *row[8];
    for (u32 r = 0; r < 8; ++r) {
      u64 address = at[8 * k + r] + o.d;
      row[r] = place<W>(w, o, 8 * k + r, address, 16, Store);
      if (row[r] == nullptr || address % 16 != 0)
        return report_address(w, o, 8 * k + r, address, 16, Store);
    }
    for (u32 lane = 0; lane < kLanes; ++lane)
      for (u32 j = 0; j < 2; ++j) {
        u32 r = lane / 4, c = lane % 4 * 2 + j;
        if (f.columns) std::swap(r, c);
        u16 v = static_cast<u16>(bits_at(w, rows + k, ElementType::F16, lane, j));
        if (Store) {
          std::memcpy(row[r] + 2 * c, &v, 2);
        } else {
          std::memcpy(&v, row[r] + 2 * c, 2);
          put_bits(w, rows + k, ElementType::F16, lane, j, v);
        }
      }
  }
}

bool element_named(std::string_view word, ElementType &out) {
  constexpr std::pair<std::string_view, ElementType> kNames[] = {
      {"f16", ElementType::F16}, {"bf16", ElementType::BF16}, {"tf32", ElementType::TF32},
      {"s8", ElementType::S8},   {"u8", ElementType::U8},     {"f64", ElementType::F64},
      {"f32", ElementType::F32}, {"s32", ElementType::S32}};
  for (auto [name, type] : kNames)
    if (word == name) {
      out = type;
      return true;
    }
  return false;
}

// "m16n8k16"
bool shape_named(std::string_view word, Form &f) {
  u8 *const sizes[] = {&f.m, &f.n, &f.k};
  constexpr std::string_view kLetters = "mnk";
  size_t at = 0;
  for (size_t i = 0; i < 3; ++i) {
    if (at >= word.size() || word[at++] != kLetters[i]) return false;
    u32 n = 0;
    for (; at < word.size() && word[at] >= '0' && word[at] <= '9' && n < 100; ++at)
      n = 10 * n + static_cast<u32>(word[at] - '0');
    if (n == 0 || n > 32) return false;
    *sizes[i] = static_cast<u8>(n);
  }
  return at == word.size() && f.m * f.n <= 256 && f.m * f.k <= 512 && f.k * f.n <= 512;
}

// The types in the order of their modifiers. wmma of f16 names only d and c.
bool read_form(const Instruction &in, Form &f) {
  ElementType types[4];
  size_t n = 0;
  bool shaped = false;
  for (std::string_view m : in.modifiers) {
    if (n < 4 && element_named(m, types[n]))
      ++n;
    else
      shaped |= m.starts_with('m') && shape_named(m, f);
  }
  f.saturate = in.has("satfinite");
  if (n == 4) {
    f.d = types[0];
    f.a = types[1];
    f.b = types[2];
    f.c = types[3];
  } else if (n == 2 && in.opcode == "wmma") {
    f.d = types[0];
    f.c = types[1];
  } else if (n == 1) {
    f.a = types[0];
  } else {
    return false;
  }
  return shaped;
}

size_t registers_in(const Instruction &in, size_t operand) {
  if (operand >= in.operands.size()) return 0;
  const ptx::Operand &o = in.operands[operand];
  return o.kind == ptx::OperandKind::Vector ? o.inner.size() : 1;
}

// Whether this number of registers holds every element equally often.
bool fits(const Form &f, Role role, ElementType type, size_t registers) {
  size_t all = size_t{rows_of(f, role)} * columns_of(f, role);
  size_t held = registers * per_register(type) * kLanes;
  return f.documented ? held == all : held >= all && held % all == 0;
}

// The shapes that follow the common layout; m8n8k4 of f16, by quarters of a warp, does not.
bool known_shape(const Form &f) {
  u32 bits = bits_of_element(f.a);
  if (bits_of_element(f.b) != bits || f.n != 8) return false;
  if (bits == 64) return f.m == 8 && f.k == 4;
  if (f.m == 8) return bits == 8 && f.k == 16;
  return f.m == 16 && (f.k * bits == 128 || f.k * bits == 256);
}

bool select_product(const Instruction &in, Selected &s) {
  Form f;
  f.documented = in.opcode == "mma";
  if (!read_form(in, f) || in.has("sp") || in.has("xor") || in.has("and")) return false;
  if (f.documented && (!known_shape(f) || !in.has("row") || !in.has("col"))) return false;
  bool fit =
      fits(f, Role::C, f.d, registers_in(in, 0)) && fits(f, Role::A, f.a, registers_in(in, 1)) &&
      fits(f, Role::B, f.b, registers_in(in, 2)) && fits(f, Role::C, f.c, registers_in(in, 3));
  if (!fit) return false;
  uniform(s, &mma, f.a == ElementType::F64 ? Type::B64 : Type::B32);
  s.shape = Shape::Matrix;
  s.imm = std::bit_cast<i64>(f);
  return true;
}

template <bool Store>
Run memory_run(bool single, bool shared) {
  if (single)
    return shared ? &rows_of_matrices<Where::Shared, Store>
                  : &rows_of_matrices<Where::Global, Store>;
  return shared ? &matrix_memory<Where::Shared, Store> : &matrix_memory<Where::Global, Store>;
}

bool select_access(const Instruction &in, Selected &s, const Form &f, bool store, bool single) {
  bool shared = where(in.space()) == Where::Shared;
  uniform(s, store ? memory_run<true>(single, shared) : memory_run<false>(single, shared),
          f.a == ElementType::F64 ? Type::B64 : Type::B32);
  s.shape = store ? Shape::MatrixStore : Shape::MatrixLoad;
  s.flow = vm::Flow::Checked;
  s.imm = std::bit_cast<i64>(f);
  return true;
}

bool select_wmma_access(const Instruction &in, Selected &s, bool store) {
  Form f;
  if (!read_form(in, f)) return false;
  f.role = in.has("a") ? Role::A : in.has("b") ? Role::B : Role::C;
  f.columns = in.has("col");
  return fits(f, f.role, f.a, registers_in(in, store ? 1 : 0)) &&
         select_access(in, s, f, store, false);
}

bool select_rows(const Instruction &in, Selected &s, bool store) {
  size_t n = in.has("x4") ? 4 : in.has("x2") ? 2 : 1;
  if (!in.has("m8n8") || !in.has("b16") || registers_in(in, store ? 1 : 0) != n) return false;
  Form f;
  f.columns = in.has("trans");
  return select_access(in, s, f, store, true);
}

}  // namespace

bool select_matrix(const Instruction &in, Selected &s) {
  if (in.opcode == "ldmatrix" || in.opcode == "stmatrix")
    return select_rows(in, s, in.opcode == "stmatrix");
  if (in.opcode == "mma" && in.has("sync")) return select_product(in, s);
  if (in.opcode != "wmma") return false;
  if (in.has("mma")) return select_product(in, s);
  return (in.has("load") || in.has("store")) && select_wmma_access(in, s, in.has("store"));
}

}  // namespace ckpt::softcuda::isa::any
