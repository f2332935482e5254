// SPDX-License-Identifier: Apache-2.0
//
// The symbols of libcuda.so.1, and cuGetProcAddress. As in libckpt-cuda/entry/entries.h, each entry
// is an exported jump; here it leads to a function of cuda.api, or to a refusal.
#include <pthread.h>

#include <algorithm>

#include "cuda/entries.h"
#include "cuda/jump.h"
#include "remote/cuda/client/entry/reasons.h"
#include "remote/cuda/client/link/gate.h"
#include "remote/cuda/client/objects/client.h"

namespace ckpt::remote::cuda {
namespace {

using api::CudaId;

template <CudaId I>
CUresult refuse_entry() {
  const char *symbol = api::kCudaTable[static_cast<size_t>(I)].symbol;
  return refuse(symbol, reason_against(symbol));
}

// A call waits while a checkpoint has the gate closed.
template <class F, F Entry>
struct Gated;
template <class... A, CUresult (*Entry)(A...)>
struct Gated<CUresult (*)(A...), Entry> {
  static CUresult call(A... a) {
    Inside inside;
    return Entry(a...);
  }
};

// The parameters of a refused entry do not matter.
template <CudaId I>
inline constexpr void *(*kFunction)() = [] { return reinterpret_cast<void *>(&refuse_entry<I>); };

#define OURS(symbol, type)                                     \
  template <>                                                  \
  inline constexpr void *(*kFunction<CudaId::id_##symbol>)() = \
      [] { return reinterpret_cast<void *>(&Gated<type, entry_##symbol>::call); };
#define ASKED(n, symbol, type) OURS(symbol, type)
#define PER_THREAD(symbol, type, legacy)                                                   \
  template <>                                                                              \
  inline constexpr void *(*kFunction<CudaId::id_##symbol>)() = [] {                        \
    return reinterpret_cast<void *>(&Gated<type, &PerThread<entry_##legacy>::call>::call); \
  };
#include "remote/cuda/cuda.api"

}  // namespace

#define CU_ENTRY(name, version, symbol, per_thread) CKPT_CUDA_JUMP(symbol)
#include "cuda/entries.api"
#undef CU_ENTRY

namespace {

void *const *targets() {
  static void *const kTargets[] = {
#define CU_ENTRY(name, version, symbol, per_thread) kFunction<CudaId::id_##symbol>(),
#include "cuda/entries.api"
#undef CU_ENTRY
  };
  return kTargets;
}

// In the child of a fork.
void forget_devices() {
  link().forked();
  gate().forget();
}

// Before the program can call. The libraries that it loads may call from their constructors, but
// only after this one, on which they depend.
[[gnu::constructor]] void fill_targets() {
#define CU_ENTRY(name, version, symbol, per_thread) \
  target_##symbol = kFunction<CudaId::id_##symbol>();
#include "cuda/entries.api"
#undef CU_ENTRY
  gate();  // so that no fork meets it half made
  ::pthread_atfork(nullptr, nullptr, forget_devices);
}

}  // namespace

CUresult entry_cuGetProcAddress_v2(const char *name, void **function, int version, cuuint64_t flags,
                                   CUdriverProcAddressQueryResult *result) {
  constexpr cuuint64_t kPerThread = CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM;
  constexpr cuuint64_t kKnown = CU_GET_PROC_ADDRESS_LEGACY_STREAM | kPerThread;
  if (!name || !function || (flags & ~kKnown) != 0 || flags == kKnown)
    return CUDA_ERROR_INVALID_VALUE;
  CudaId id = api::find_cuda_entry(name, version, (flags & kPerThread) != 0);
  bool found = id != CudaId::Count;
  bool known = found || api::find_cuda_entry(name, INT32_MAX, true) != CudaId::Count;
  *function = found ? targets()[static_cast<size_t>(id)] : nullptr;
  if (result)
    *result = found   ? CU_GET_PROC_ADDRESS_SUCCESS
              : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                      : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  return found ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
}

CUresult entry_cuGetProcAddress(const char *name, void **function, int version, cuuint64_t flags) {
  return entry_cuGetProcAddress_v2(name, function, version, flags, nullptr);
}

// Private interfaces of NVIDIA's driver, which the static runtime needs.
CUresult entry_cuGetExportTable(const void **table, const CUuuid *) {
  if (table) *table = nullptr;
  (void)refuse("cuGetExportTable",
               "it leads to private interfaces of NVIDIA's driver, which a program or library with "
               "the static CUDA runtime needs; link it with nvcc -cudart shared");
  return CUDA_ERROR_NOT_FOUND;
}

}  // namespace ckpt::remote::cuda
