// SPDX-License-Identifier: Apache-2.0
//
// From an address in a state space to the bytes on the host.
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

inline Where where(ptx::Space space) {
  switch (space) {
    case ptx::Space::Shared: return Where::Shared;
    case ptx::Space::Local: return Where::Local;
    default: return Where::Global;
  }
}

}  // namespace ckpt::softcuda::isa::CKPT_ISA
