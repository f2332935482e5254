// SPDX-License-Identifier: Apache-2.0
//
// What a device's ELF file says in its header.
#pragma once

#include <elf.h>

#include "common/base/bytes.h"

namespace ckpt::fatbin {

constexpr u16 kCudaMachine = 190;  // EM_CUDA

// 90 is sm_90. Until CUDA 12 the ABI was 7 and the number stood in the lowest byte of the flags.
inline u32 arch_of_cubin(const Elf64_Ehdr &header) {
  constexpr u8 kShiftedSince = 8;
  u32 flags = header.e_ident[EI_ABIVERSION] >= kShiftedSince ? header.e_flags >> 8 : header.e_flags;
  return flags & 0xff;
}

}  // namespace ckpt::fatbin
