// SPDX-License-Identifier: Apache-2.0
//
// The entries that the software device refuses (docs/SOFTCUDA.md lists them): they write their name
// to standard error once and return CUDA_ERROR_NOT_SUPPORTED. This file defines every entry of the
// driver API as a weak symbol; a definition in another file replaces it.
#include "softcuda/driver/state/process.h"

// The functions ignore their arguments, so the types do not matter.
#define CU_ENTRY(name, version, symbol, per_thread)                      \
  extern "C" __attribute__((used)) CUresult softcuda_refuse_##symbol() { \
    return ckpt::softcuda::driver::refuse(#symbol);                      \
  }                                                                      \
  asm(".weak " #symbol "\n.type " #symbol ", @function\n.set " #symbol   \
      ", softcuda_refuse_" #symbol);
#include "cuda/entries.api"
#undef CU_ENTRY
