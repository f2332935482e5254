// SPDX-License-Identifier: Apache-2.0
//
// Conversions between address spaces; asynchronous copies to shared memory; hints for caches.
#include <algorithm>

#include "softcuda/isa/pick.h"
#include "softcuda/isa/place.h"

namespace ckpt::softcuda::isa::CKPT_ISA {

namespace {

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

bool select_space(const Instruction &in, Selected &s) {
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
