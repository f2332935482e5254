// SPDX-License-Identifier: Apache-2.0
#include "softcuda/driver/work/value_operations.h"

#include <chrono>
#include <thread>

namespace ckpt::softcuda::driver {
namespace {

// The host address of an aligned T in memory that the device can reach, or nullptr.
template <class T>
T *word_at(CUdeviceptr p) {
  return p % sizeof(T) == 0 ? reinterpret_cast<T *>(process().memory->host(p, sizeof(T))) : nullptr;
}

template <class T>
bool holds(T now, T value, unsigned kind) {
  switch (kind) {
    case CU_STREAM_WAIT_VALUE_EQ: return now == value;
    case CU_STREAM_WAIT_VALUE_AND: return (now & value) != 0;
    case CU_STREAM_WAIT_VALUE_NOR: return ~(now | value) != 0;
    default: return static_cast<std::make_signed_t<T>>(now - value) >= 0;
  }
}

template <class T>
void write(CUdeviceptr p, T value) {
  DeviceAccess access;
  if (T *at = word_at<T>(p)) __atomic_store_n(at, value, __ATOMIC_SEQ_CST);
}

template <class T>
void wait(CUdeviceptr p, T value, unsigned flags) {
  for (T *at = word_at<T>(p); at != nullptr; at = word_at<T>(p)) {
    if (holds(__atomic_load_n(at, __ATOMIC_SEQ_CST), value, flags & 3)) break;
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  set_model_time_to_now();
}

ValueOperation operation(CUstreamBatchMemOpType type, CUdeviceptr p, cuuint64_t value,
                         unsigned flags) {
  ValueOperation o{};
  o.operation = type;
  o.waitValue.address = p;
  o.waitValue.value64 = value;
  o.waitValue.flags = flags;
  return o;
}

}  // namespace

ValueOperation write_of(CUdeviceptr p, cuuint32_t value) {
  return operation(CU_STREAM_MEM_OP_WRITE_VALUE_32, p, value, 0);
}
ValueOperation write_of(CUdeviceptr p, cuuint64_t value) {
  return operation(CU_STREAM_MEM_OP_WRITE_VALUE_64, p, value, 0);
}
ValueOperation wait_for(CUdeviceptr p, cuuint32_t value, unsigned flags) {
  return operation(CU_STREAM_MEM_OP_WAIT_VALUE_32, p, value, flags);
}
ValueOperation wait_for(CUdeviceptr p, cuuint64_t value, unsigned flags) {
  return operation(CU_STREAM_MEM_OP_WAIT_VALUE_64, p, value, flags);
}

CUresult check(const ValueOperation &o) {
  bool reachable = false;
  switch (o.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32:
    case CU_STREAM_MEM_OP_WRITE_VALUE_32: reachable = word_at<u32>(o.waitValue.address); break;
    case CU_STREAM_MEM_OP_WAIT_VALUE_64:
    case CU_STREAM_MEM_OP_WRITE_VALUE_64: reachable = word_at<u64>(o.waitValue.address); break;
    default: return CUDA_ERROR_NOT_SUPPORTED;
  }
  return reachable ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

void run(const ValueOperation &o) {
  const auto &w = o.waitValue;
  switch (o.operation) {
    case CU_STREAM_MEM_OP_WAIT_VALUE_32: return wait<u32>(w.address, w.value, w.flags);
    case CU_STREAM_MEM_OP_WAIT_VALUE_64: return wait<u64>(w.address, w.value64, w.flags);
    case CU_STREAM_MEM_OP_WRITE_VALUE_32: return write<u32>(w.address, w.value);
    case CU_STREAM_MEM_OP_WRITE_VALUE_64: return write<u64>(w.address, w.value64);
    default: return;
  }
}

}  // namespace ckpt::softcuda::driver
