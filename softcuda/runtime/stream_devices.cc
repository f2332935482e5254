// SPDX-License-Identifier: Apache-2.0
#include "softcuda/runtime/stream_devices.h"

#include <mutex>
#include <unordered_map>

namespace ckpt::softcuda::runtime {
namespace {

struct Streams {
  std::mutex mutex;
  std::unordered_map<cudaStream_t, CUdevice> devices;
};
Streams &streams() {
  static Streams *const kStreams = new Streams;
  return *kStreams;
}

}  // namespace

cudaError_t note_stream(cudaError_t made, const cudaStream_t *s) {
  CUdevice device = 0;
  if (made != cudaSuccess || cuCtxGetDevice(&device) != CUDA_SUCCESS) return made;
  std::lock_guard lock(streams().mutex);
  streams().devices[*s] = device;
  return made;
}

void forget_stream(cudaStream_t s) {
  std::lock_guard lock(streams().mutex);
  streams().devices.erase(s);
}

cudaError_t check_stream_device(cudaStream_t s) {
  CUdevice current = 0;
  if (s == nullptr || cuCtxGetDevice(&current) != CUDA_SUCCESS) return cudaSuccess;
  std::lock_guard lock(streams().mutex);
  auto it = streams().devices.find(s);
  bool other = it != streams().devices.end() && it->second != current;
  return other ? cudaErrorInvalidResourceHandle : cudaSuccess;
}

}  // namespace ckpt::softcuda::runtime
