// SPDX-License-Identifier: Apache-2.0
//
// All families of instructions, for one instruction set of the host.
#include "softcuda/isa/pick.h"

namespace ckpt::softcuda::isa::CKPT_ISA {

bool select(const Instruction &in, Selected &out) {
  using Select = bool (*)(const Instruction &, Selected &);
  constexpr Select kFamilies[] = {
      &any::select_wide,     &any::select_extended, &select_integer,      &select_floating,
      &select_half,          &select_compare,       &select_convert,      &select_memory,
      &any::select_atomic,   &any::select_warp,     &any::select_control, &any::select_texture,
      &any::select_mbarrier, &any::select_space,    &any::select_cluster, &any::select_matrix,
      &any::select_video,    &select_bits};
  for (Select family : kFamilies) {
    out = Selected{};
    if (family(in, out)) return true;
  }
  return false;
}

}  // namespace ckpt::softcuda::isa::CKPT_ISA
