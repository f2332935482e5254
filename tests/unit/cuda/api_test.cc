// SPDX-License-Identifier: Apache-2.0
//
// The room cuda/: what the documentation of the driver API says, as tables.
#include <doctest/doctest.h>

#include <string>
#include <tuple>

#include "cuda/arrays.h"
#include "cuda/copies.h"
#include "cuda/entries.h"
#include "cuda/errors.h"

using namespace ckpt;
using namespace ckpt::api;

namespace {

CUDA_ARRAY3D_DESCRIPTOR array(size_t w, size_t h, size_t d, CUarray_format f, unsigned channels,
                              unsigned flags = 0) {
  CUDA_ARRAY3D_DESCRIPTOR a{};
  a.Width = w, a.Height = h, a.Depth = d;
  a.Format = f, a.NumChannels = channels, a.Flags = flags;
  return a;
}

// A different number in each byte.
template <class T>
T filled() {
  T t{};
  auto *bytes = reinterpret_cast<unsigned char *>(&t);
  for (size_t i = 0; i < sizeof t; i++) bytes[i] = static_cast<unsigned char>(i + 1);
  return t;
}

// 16 bytes in each of 4 rows and 2 slices, from (8, 3, 1), with the pitch 32 and 8 rows a slice.
CUDA_MEMCPY3D box() {
  CUDA_MEMCPY3D d{};
  d.WidthInBytes = 16, d.Height = 4, d.Depth = 2;
  d.srcMemoryType = CU_MEMORYTYPE_HOST;
  d.srcHost = reinterpret_cast<void *>(0x1000);
  d.srcXInBytes = 8, d.srcY = 3, d.srcZ = 1;
  d.srcPitch = 32, d.srcHeight = 8;
  d.dstMemoryType = CU_MEMORYTYPE_DEVICE;
  d.dstDevice = 0x20000;
  return d;
}

std::string symbol_of(CudaId id) {
  return id == CudaId::Count ? "" : kCudaTable[static_cast<size_t>(id)].symbol;
}

}  // namespace

TEST_CASE("the bytes of an array follow from its format, its channels and its extents") {
  ArrayShape line(array(10, 0, 0, CU_AD_FORMAT_UNSIGNED_INT8, 1));
  CHECK(line.element_bytes == 1);
  CHECK(line.bytes() == 10);
  ArrayShape layers(array(5, 3, 7, CU_AD_FORMAT_HALF, 2, CUDA_ARRAY3D_LAYERED));
  CHECK(layers.element_bytes == 4);
  CHECK(layers.row_bytes == 20);
  CHECK(layers.slice_bytes() == 60);
  CHECK(layers.slices == 7);
  CHECK(layers.bytes() == 420);
  CHECK(ArrayShape(array(1, 1, 1, CU_AD_FORMAT_FLOAT, 4)).bytes() == 16);
  CHECK(ArrayShape(array(4, 4, 0, CU_AD_FORMAT_BC1_UNORM, 4)).bytes() == 0);
}

TEST_CASE("a level is half of the one before, but for layers and faces") {
  CUDA_ARRAY3D_DESCRIPTOR volume = array(8, 5, 3, CU_AD_FORMAT_FLOAT, 1);
  CHECK(level_of(volume, 1).Width == 4);
  CHECK(level_of(volume, 1).Height == 2);
  CHECK(level_of(volume, 1).Depth == 1);
  CHECK(level_of(volume, 3).Height == 1);
  CHECK(level_of(array(8, 0, 0, CU_AD_FORMAT_FLOAT, 1), 2).Height == 0);
  CHECK(level_of(array(8, 8, 6, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_CUBEMAP), 2).Depth == 6);
  CHECK(level_of(array(8, 8, 9, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_LAYERED), 2).Depth == 9);
  // "1 + floor(log2(max(width, height, depth)))"
  CHECK(most_levels(array(1, 0, 0, CU_AD_FORMAT_FLOAT, 1)) == 1);
  CHECK(most_levels(array(8, 5, 3, CU_AD_FORMAT_FLOAT, 1)) == 4);
  CHECK(most_levels(array(4, 4, 16, CU_AD_FORMAT_FLOAT, 1, CUDA_ARRAY3D_LAYERED)) == 5);
  CHECK(levels_of(volume, 0) == 1);
  CHECK(levels_of(volume, 3) == 3);
  CHECK(levels_of(volume, 100) == 4);
}

TEST_CASE("a copy of rows is a box of one slice, with every field") {
  auto c = filled<CUDA_MEMCPY2D>();
  c.srcMemoryType = CU_MEMORYTYPE_HOST, c.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  CUDA_MEMCPY3D d = as_3d(c);
  CHECK(d.srcXInBytes == c.srcXInBytes);
  CHECK(d.srcY == c.srcY);
  CHECK(d.srcMemoryType == c.srcMemoryType);
  CHECK(d.srcHost == c.srcHost);
  CHECK(d.srcDevice == c.srcDevice);
  CHECK(d.srcArray == c.srcArray);
  CHECK(d.srcPitch == c.srcPitch);
  CHECK(d.dstXInBytes == c.dstXInBytes);
  CHECK(d.dstY == c.dstY);
  CHECK(d.dstMemoryType == c.dstMemoryType);
  CHECK(d.dstHost == c.dstHost);
  CHECK(d.dstDevice == c.dstDevice);
  CHECK(d.dstArray == c.dstArray);
  CHECK(d.dstPitch == c.dstPitch);
  CHECK(d.WidthInBytes == c.WidthInBytes);
  CHECK(d.Height == c.Height);
  CHECK(d.Depth == 1);
  CHECK(d.srcZ + d.dstZ + d.srcLOD + d.dstLOD + d.srcHeight + d.dstHeight == 0);
}

// Between its fields there are bytes that no copy need keep.
auto fields_of(const CUDA_MEMCPY3D_PEER &p) {
  return std::tuple(p.srcXInBytes, p.srcY, p.srcZ, p.srcLOD, p.srcMemoryType, p.srcHost,
                    p.srcDevice, p.srcArray, p.srcContext, p.srcPitch, p.srcHeight, p.dstXInBytes,
                    p.dstY, p.dstZ, p.dstLOD, p.dstMemoryType, p.dstHost, p.dstDevice, p.dstArray,
                    p.dstContext, p.dstPitch, p.dstHeight, p.WidthInBytes, p.Height, p.Depth);
}

TEST_CASE("contexts stand in the reserved fields, and come and go alone") {
  auto p = filled<CUDA_MEMCPY3D_PEER>();
  p.srcMemoryType = CU_MEMORYTYPE_HOST, p.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  CUDA_MEMCPY3D d = without_contexts(p);
  CHECK(d.reserved0 == nullptr);
  CHECK(d.reserved1 == nullptr);
  CHECK(d.srcArray == p.srcArray);
  CHECK(d.srcPitch == p.srcPitch);
  CHECK(d.dstZ == p.dstZ);
  CHECK(d.dstHeight == p.dstHeight);
  CHECK(d.Depth == p.Depth);
  CUDA_MEMCPY3D_PEER again = with_contexts(d, p.dstContext, p.srcContext);
  CHECK((fields_of(again) == fields_of(p)));
}

TEST_CASE("a side of linear memory begins behind its slices, rows and bytes") {
  CUDA_MEMCPY3D d = box();
  LinearBox from = linear_box(source_of(d), d);
  CHECK(from.row == 32);
  CHECK(from.slice == 256);
  CHECK(from.first == 0x1000 + 256 + 3 * 32 + 8);
  CHECK(from.bytes == 256 + 3 * 32 + 16);
  LinearBox to = linear_box(target_of(d), d);  // without a pitch: the box itself
  CHECK(to.row == 16);
  CHECK(to.slice == 64);
  CHECK(to.first == 0x20000);
  CHECK(to.bytes == 128);
}

TEST_CASE("a side that was set is found again") {
  CUDA_MEMCPY3D d = box(), other{};
  set_source(other, target_of(d));
  set_target(other, source_of(d));
  CHECK(other.srcDevice == 0x20000);
  CHECK(other.dstDevice == 0x1000);
  CHECK(other.dstPitch == 32);
  CHECK(other.dstY == 3);
}

TEST_CASE("a pitch holds the bytes in front of the box too, and levels are zero") {
  CUDA_MEMCPY3D d = box();
  CHECK(is_sound(d));
  d.srcPitch = 24;  // WidthInBytes + srcXInBytes
  CHECK(is_sound(d));
  d.srcPitch = 23;
  CHECK(!is_sound(d));
  d.Height = 1;  // there is no next row
  CHECK(is_sound(d));
  d.srcMemoryType = CU_MEMORYTYPE_ARRAY;  // has a pitch of its own
  d.Height = 4;
  CHECK(is_sound(d));
  d.dstLOD = 1;
  CHECK(!is_sound(d));
  d.dstLOD = 0, d.srcLOD = 1;
  CHECK(!is_sound(d));
}

TEST_CASE("a program gets the newest form of an entry that it can know") {
  CHECK(symbol_of(find_cuda_entry("cuMemAlloc", 12000, false)) == "cuMemAlloc_v2");
  CHECK(symbol_of(find_cuda_entry("cuMemAlloc", 2000, false)) == "cuMemAlloc");
  CHECK(symbol_of(find_cuda_entry("cuMemAlloc", 1000, false)) == "");
  CHECK(symbol_of(find_cuda_entry("cuStreamSynchronize", 12000, true)) ==
        "cuStreamSynchronize_ptsz");
  CHECK(symbol_of(find_cuda_entry("cuMemAlloc", 12000, true)) == "cuMemAlloc_v2");  // has no other
  CHECK(symbol_of(find_cuda_entry("cuNoSuchEntry", 12000, false)) == "");
  CHECK(knows_cuda_entry("cuMemAlloc"));
  CHECK(!knows_cuda_entry("cuNoSuchEntry"));
  for (const CudaEntry &e : kCudaTable) CHECK(e.version <= kNewestVersion);
}

TEST_CASE("an error has a name and a description, and an unknown one has none") {
  using Name = ErrorName<CUresult>;
  const char *text = nullptr;
  CHECK(describe_error(CUDA_ERROR_OUT_OF_MEMORY, &text, &Name::name) == CUDA_SUCCESS);
  CHECK(std::string(text) == "CUDA_ERROR_OUT_OF_MEMORY");
  CHECK(describe_error(CUDA_ERROR_OUT_OF_MEMORY, &text, &Name::text) == CUDA_SUCCESS);
  CHECK(std::string(text) == "out of memory");
  constexpr auto kUnknown = static_cast<CUresult>(998);  // a larger one has undefined behaviour
  CHECK(describe_error(kUnknown, &text, &Name::name) == CUDA_ERROR_INVALID_VALUE);
  CHECK(text == nullptr);
  CHECK(describe_error(CUDA_SUCCESS, nullptr, &Name::name) == CUDA_ERROR_INVALID_VALUE);
}
