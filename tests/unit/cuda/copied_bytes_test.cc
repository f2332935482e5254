// SPDX-License-Identifier: Apache-2.0
//
// The bytes that calls copy between the host and a device, read from their parameters.
#include "libckpt-cuda/calls/copied_bytes.h"

#include <doctest/doctest.h>

#include <type_traits>

namespace ckpt::cuda {

// In this test addresses below 1000 are device memory.
bool is_device_memory(CUdeviceptr p) { return p < 1000; }

}  // namespace ckpt::cuda

using namespace ckpt;
using namespace ckpt::cuda;

namespace {

constexpr CUdeviceptr kDevice = 1, kOther = 2, kHost = 1000;
constexpr size_t kBytes = 77, kMany = 1 << 20;
constexpr CUstream kStream = nullptr;

template <class Copy>
Copy copy(CUmemorytype from, CUmemorytype to) {
  Copy c{};
  c.srcMemoryType = from;
  c.dstMemoryType = to;
  c.WidthInBytes = 5;
  c.Height = 7;
  return c;
}

Copied in(u64 bytes) { return {bytes, 0}; }
Copied out(u64 bytes) { return {0, bytes}; }

}  // namespace

TEST_CASE("copies are counted by the parameters of the call") {
  char host[1];
  const void *from = host;
  void *to = host;
  CUarray array = nullptr;
  CHECK(copied_by(kDevice, from, kBytes) == in(kBytes));
  CHECK(copied_by(kDevice, from, kBytes, kStream) == in(kBytes));
  CHECK(copied_by(to, kDevice, kBytes) == out(kBytes));
  CHECK(copied_by(to, kDevice, kBytes, kStream) == out(kBytes));
  CHECK(copied_by(array, size_t{3}, from, kBytes, kStream) == in(kBytes));
  CHECK(copied_by(to, array, size_t{3}, kBytes) == out(kBytes));
  CHECK(copied_by(kDevice, kHost, kMany) == in(kMany));
  CHECK(copied_by(kHost, kDevice, kMany, kStream) == out(kMany));
  CHECK(copied_by(kDevice, kOther, kMany) == Copied{});
  CHECK(copied_by(kHost, kHost, kMany) == Copied{});
}

TEST_CASE("the Manager does not pay for looking up the addresses of small copies") {
  const void *from = nullptr;
  CHECK(costs_lookups(kDevice, kHost, kBytes));
  CHECK(costs_lookups(kDevice, kHost, kBytes, kStream));
  CHECK_FALSE(costs_lookups(kDevice, kHost, kMany));
  CHECK_FALSE(costs_lookups(kDevice, from, kBytes));  // its parameters say the direction
}

TEST_CASE("copies of rectangles and boxes count if one side is the host") {
  auto up = copy<CUDA_MEMCPY2D_v2>(CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE);
  auto inside = copy<CUDA_MEMCPY2D_v2>(CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_ARRAY);
  auto down = copy<CUDA_MEMCPY3D_v2>(CU_MEMORYTYPE_ARRAY, CU_MEMORYTYPE_HOST);
  auto unified = copy<CUDA_MEMCPY2D_v2>(CU_MEMORYTYPE_UNIFIED, CU_MEMORYTYPE_UNIFIED);
  unified.srcDevice = kHost;
  unified.dstDevice = kDevice;
  down.Depth = 2;
  const CUDA_MEMCPY2D_v2 *rectangle = &up, *within = &inside, *either = &unified, *null = nullptr;
  const CUDA_MEMCPY3D_v2 *box = &down;
  CHECK(copied_by(rectangle) == in(35));
  CHECK(copied_by(rectangle, kStream) == in(35));
  CHECK(copied_by(within) == Copied{});
  CHECK(copied_by(either) == in(35));
  CHECK(copied_by(null) == Copied{});
  CHECK(copied_by(box, kStream) == out(70));
}

TEST_CASE("calls that copy nothing are known when they are compiled") {
  unsigned char value = 1;
  CUarray array = nullptr;
  static_assert(std::is_same_v<decltype(copied_by()), CopiesNothing>);
  static_assert(std::is_same_v<decltype(copied_by(kDevice, value, kBytes)), CopiesNothing>);
  static_assert(std::is_same_v<decltype(copied_by(kStream)), CopiesNothing>);
  static_assert(std::is_same_v<decltype(copied_by(kDevice, array, kBytes, kBytes)), CopiesNothing>);
  CHECK(copies_within_devices(Id::id_cuMemcpyDtoDAsync_v2));
  CHECK_FALSE(copies_within_devices(Id::id_cuMemcpyDtoHAsync_v2));
}
