// SPDX-License-Identifier: Apache-2.0
//
// Mipmapped arrays: an array, and its halves down to one element. A level is an array that belongs
// to the mipmapped array.
#include "common/base/rounded_up.h"
#include "cuda/arrays.h"
#include "softcuda/driver/arrays/array.h"

namespace ckpt::softcuda::driver {
namespace {

// The levels with their places relative to the beginning of the allocation. Returns its size.
u64 lay_out(Mipmap &m, unsigned count) {
  u64 at = 0;
  for (unsigned k = 0; k < count; ++k) {
    std::unique_ptr<Array> &level =
        m.levels.emplace_back(array_at(m.context, api::level_of(m.desc, k), at));
    level->mipmap = &m;
    at = rounded_up(at + bytes_of(*level), api::kGrainBytes);
  }
  return at;
}

}  // namespace
}  // namespace ckpt::softcuda::driver

using namespace ckpt;
using namespace ckpt::softcuda;
using namespace ckpt::softcuda::driver;

SOFTCUDA_API CUresult cuMipmappedArrayCreate(CUmipmappedArray *out,
                                             const CUDA_ARRAY3D_DESCRIPTOR *d, unsigned int count) {
  CALL_WITH_CONTEXT();
  REQUIRE(out != nullptr && d != nullptr, CUDA_ERROR_INVALID_VALUE);
  CHECK_CU(check_description(*call.context, *d, true));
  auto m = std::make_unique<Mipmap>();
  m->context = call.context;
  m->desc = *d;
  u64 bytes = lay_out(*m, api::levels_of(*d, count));
  std::optional<Allocation> memory = process().memory->allocate(
      static_cast<u32>(call.context->device->index), bytes, MemoryKind::Device, call.context);
  REQUIRE(memory, CUDA_ERROR_OUT_OF_MEMORY);
  m->base = memory->base;
  for (std::unique_ptr<Array> &level : m->levels) {
    level->base += m->base;
    process().arrays.add(level.get());
  }
  *out = reinterpret_cast<CUmipmappedArray>(process().mipmaps.add(m.release()));
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuMipmappedArrayGetLevel(CUarray *out, CUmipmappedArray array,
                                               unsigned int level) {
  CALL_WITH_CONTEXT();
  const Mipmap *m = process().mipmaps.get(array);
  REQUIRE(out != nullptr, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(m != nullptr, CUDA_ERROR_INVALID_HANDLE);
  REQUIRE(level < m->levels.size(), CUDA_ERROR_INVALID_VALUE);
  *out = reinterpret_cast<CUarray>(m->levels[level].get());
  return CUDA_SUCCESS;
}

// As cuArrayGetMemoryRequirements.
SOFTCUDA_API CUresult cuMipmappedArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *,
                                                            CUmipmappedArray, CUdevice) {
  CALL_WITH_CONTEXT();
  return CUDA_ERROR_INVALID_VALUE;
}

SOFTCUDA_API CUresult cuMipmappedArrayDestroy(CUmipmappedArray array) {
  CALL_WITH_CONTEXT();
  Mipmap *m = process().mipmaps.get(array);
  REQUIRE(m != nullptr, CUDA_ERROR_INVALID_HANDLE);
  call.context->synchronize();
  REQUIRE(process().mipmaps.remove(m), CUDA_ERROR_INVALID_HANDLE);
  for (std::unique_ptr<Array> &level : m->levels) {
    process().arrays.remove(level.get());
    end_textures_of(*level);
  }
  process().memory->release(m->base, MemoryKind::Device);
  delete m;
  return CUDA_SUCCESS;
}
