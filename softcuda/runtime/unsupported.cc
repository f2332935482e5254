// SPDX-License-Identifier: Apache-2.0
//
// The functions of libcudart.so.13 that the software device refuses, as in driver/unsupported.cc:
// all functions are weak symbols here, and a definition in another file replaces them.
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>
#include <string>

#include "softcuda/runtime/state.h"

namespace {

cudaError_t refuse(const char *name) {
  static std::mutex mutex;
  static std::set<std::string> *const kReported = new std::set<std::string>;
  std::lock_guard lock(mutex);
  if (kReported->insert(name).second && std::getenv("CKPT_SOFTCUDA_QUIET") == nullptr)
    std::fprintf(stderr, "softcuda: %s is not supported by the software device\n", name);
  return ckpt::softcuda::runtime::keep(cudaErrorNotSupported);
}

}  // namespace

// The functions ignore their arguments, so the types do not matter.
#define CUDART_ENTRY(symbol)                                                \
  extern "C" __attribute__((used)) cudaError_t softcuda_refuse_##symbol() { \
    return refuse(#symbol);                                                 \
  }                                                                         \
  asm(".weak " #symbol "\n.type " #symbol ", @function\n.set " #symbol      \
      ", softcuda_refuse_" #symbol);
#include "softcuda/runtime/entries.api"
#undef CUDART_ENTRY
