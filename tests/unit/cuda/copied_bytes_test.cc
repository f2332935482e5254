// SPDX-License-Identifier: Apache-2.0
//
// The bytes that calls copy between the host and a device, read from their parameters.
#include "libckpt-cuda/entry/copied_bytes.h"

#include <doctest/doctest.h>

namespace ckpt::cuda {

// In this test addresses below 1000 are device memory.
bool between_host_and_device(CUdeviceptr a, CUdeviceptr b) { return (a < 1000) != (b < 1000); }

}  // namespace ckpt::cuda

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

}  // namespace

TEST_CASE("copies are counted by the parameters of the call") {
  char host[1];
  const void *from = host;
  void *to = host;
  CHECK(copied_by(kDevice, from, kBytes) == kBytes);
  CHECK(copied_by(kDevice, from, kBytes, kStream) == kBytes);
  CHECK(copied_by(to, kDevice, kBytes) == kBytes);
  CHECK(copied_by(to, kDevice, kBytes, kStream) == kBytes);
  CHECK(copied_by(kDevice, kHost, kMany) == kMany);
  CHECK(copied_by(kHost, kDevice, kMany, kStream) == kMany);
  CHECK(copied_by(kDevice, kOther, kMany) == 0);
  CHECK(copied_by(kDevice, kHost, kBytes) == 0);
}

TEST_CASE("copies of rectangles and boxes count if one side is the host") {
  auto in = copy<CUDA_MEMCPY2D_v2>(CU_MEMORYTYPE_HOST, CU_MEMORYTYPE_DEVICE);
  auto inside = copy<CUDA_MEMCPY2D_v2>(CU_MEMORYTYPE_DEVICE, CU_MEMORYTYPE_ARRAY);
  auto out = copy<CUDA_MEMCPY3D_v2>(CU_MEMORYTYPE_ARRAY, CU_MEMORYTYPE_HOST);
  out.Depth = 2;
  const CUDA_MEMCPY2D_v2 *rectangle = &in, *within = &inside, *null = nullptr;
  const CUDA_MEMCPY3D_v2 *box = &out;
  CHECK(copied_by(rectangle) == 35);
  CHECK(copied_by(rectangle, kStream) == 35);
  CHECK(copied_by(within) == 0);
  CHECK(copied_by(null) == 0);
  CHECK(copied_by(box, kStream) == 70);
}

TEST_CASE("calls that copy nothing do not count") {
  unsigned char value = 1;
  CHECK(copied_by() == 0);
  CHECK(copied_by(kDevice, value, kBytes) == 0);
  CHECK(copied_by(kStream) == 0);
  CHECK(copies_within_devices(Id::id_cuMemcpyDtoDAsync_v2));
  CHECK_FALSE(copies_within_devices(Id::id_cuMemcpyDtoHAsync_v2));
}
