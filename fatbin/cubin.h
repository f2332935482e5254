// SPDX-License-Identifier: Apache-2.0
//
// A cubin: an ELF file with machine code for one GPU architecture.
#pragma once

#include <elf.h>

#include "fatbin/facts.h"

namespace ckpt::fatbin {

constexpr u16 kCudaMachine = 190;  // EM_CUDA

// 90 is sm_90. Version 8 of the ABI, since CUDA 12, moved the number from the lowest byte of the
// flags to the second.
inline u32 arch_of_cubin(const Elf64_Ehdr &header) {
  constexpr u8 kShiftedSince = 8;
  u32 flags = header.e_ident[EI_ABIVERSION] >= kShiftedSince ? header.e_flags >> 8 : header.e_flags;
  return flags & 0xff;
}

// Accepts any bytes. What is not a cubin or is damaged is an error, as are too many or too long
// names.
Result<CodeFacts> facts_of_cubin(ByteView cubin);

}  // namespace ckpt::fatbin
