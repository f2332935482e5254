// SPDX-License-Identifier: Apache-2.0
//
// From an address in a state space to the bytes on the host. Global accesses first try the range
// that the same instruction used last (Warp::cache).
#pragma once

#include "softcuda/isa/pick.h"
#include "softcuda/vm/access.h"
#include "softcuda/vm/report.h"

namespace ckpt::softcuda::isa::CKPT_ISA {

// Global also stands for generic and constant addresses: all three are looked up in the same way.
enum class Where : u8 { Global, Shared, Local, Frame };

template <Where W>
using Address = std::conditional_t<W == Where::Global, u64, u32>;

inline bool in_shared(const Warp &w, u64 address, u64 bytes) {
  if (address + bytes <= w.block->shared_bytes) return true;
  return address >= vm::kLateShared && address + bytes <= vm::kSharedBytes;
}

// The bytes on the host, or nullptr if the lane may not access them. Where::Frame: an offset in the
// function's own local memory.
template <Where W>
[[gnu::always_inline]] inline char *place(Warp &w, const Op &o, u32 lane, u64 address, u32 bytes,
                                          bool write) {
  if constexpr (W == Where::Global) {
    const vm::Range &r = w.cache[o.site];
    if (r.holds(address, bytes) && (!write || r.writable)) return r.host(address);
    return vm::host_address(w, o.site, lane, address, bytes, write);
  } else if constexpr (W == Where::Shared) {
    return in_shared(w, address, bytes) ? reinterpret_cast<char *>(w.block->shared + address)
                                        : vm::cluster_address(w, address, bytes);
  } else {
    if (W == Where::Frame) address += w.frame->local_base;
    if (address + bytes > w.local_bytes) return nullptr;
    return reinterpret_cast<char *>(w.local + lane * w.local_stride + address);
  }
}

using vm::report_address;

// Calls access(lane, host address) for each lane of `m`, with the address in row Op::a plus
// Op::imm. Ends the kernel at the first address that is misaligned or out of bounds.
template <Where W, class F>
[[gnu::always_inline]] inline void for_places(Warp &w, const Op &o, Mask m, u32 bytes, bool write,
                                              F access) {
  In<Address<W>> a(w, o.a);
  for (; m != 0; m &= m - 1) {
    u32 lane = static_cast<u32>(std::countr_zero(m));
    u64 address = a[lane] + static_cast<u64>(o.imm);
    if (W != Where::Global) address = static_cast<u32>(address);
    char *p = place<W>(w, o, lane, address, bytes, write);
    // NOLINTNEXTLINE(clang-analyzer-core.UndefinedBinaryOperatorResult): bytes is never 0
    if (p == nullptr || address % bytes != 0)
      return report_address(w, o, lane, address, bytes, write);
    access(lane, p);
  }
}

inline Where where(ptx::Space space) {
  switch (space) {
    case ptx::Space::Shared: return Where::Shared;
    case ptx::Space::Local: return Where::Local;
    default: return Where::Global;
  }
}

}  // namespace ckpt::softcuda::isa::CKPT_ISA
