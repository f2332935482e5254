// SPDX-License-Identifier: Apache-2.0
//
// cudaIpc*. The handles have the same layout in both APIs.
#include <cstring>

#include "softcuda/runtime/boxes.h"

using namespace ckpt::softcuda::runtime;

namespace {

template <class To, class From>
To handle_as(const From &from) {
  static_assert(sizeof(To) == sizeof(From));
  To to{};
  std::memcpy(&to, &from, sizeof to);
  return to;
}

}  // namespace

CUDART_API cudaError_t cudaIpcGetMemHandle(cudaIpcMemHandle_t *out, void *p) {
  FORWARD(cuIpcGetMemHandle(reinterpret_cast<CUipcMemHandle *>(out), address(p)));
}
CUDART_API cudaError_t cudaIpcOpenMemHandle(void **out, cudaIpcMemHandle_t handle,
                                            unsigned int flags) {
  FORWARD(cuIpcOpenMemHandle(device_pointer(out), handle_as<CUipcMemHandle>(handle), flags));
}
CUDART_API cudaError_t cudaIpcCloseMemHandle(void *p) { FORWARD(cuIpcCloseMemHandle(address(p))); }
CUDART_API cudaError_t cudaIpcGetEventHandle(cudaIpcEventHandle_t *out, cudaEvent_t event) {
  FORWARD(cuIpcGetEventHandle(reinterpret_cast<CUipcEventHandle *>(out), event));
}
CUDART_API cudaError_t cudaIpcOpenEventHandle(cudaEvent_t *out, cudaIpcEventHandle_t handle) {
  FORWARD(cuIpcOpenEventHandle(out, handle_as<CUipcEventHandle>(handle)));
}
