// SPDX-License-Identifier: Apache-2.0
//
// Arrays. An array is device memory with its rows stored one after the other.
#include "softcuda/driver/arrays/array.h"

#include "cuda/arrays.h"

namespace ckpt::softcuda::driver {

std::optional<vm::Channel> channel_of(CUarray_format f) {
  switch (f) {
    case CU_AD_FORMAT_UNSIGNED_INT8: return vm::Channel::U8;
    case CU_AD_FORMAT_UNSIGNED_INT16: return vm::Channel::U16;
    case CU_AD_FORMAT_UNSIGNED_INT32: return vm::Channel::U32;
    case CU_AD_FORMAT_SIGNED_INT8: return vm::Channel::S8;
    case CU_AD_FORMAT_SIGNED_INT16: return vm::Channel::S16;
    case CU_AD_FORMAT_SIGNED_INT32: return vm::Channel::S32;
    case CU_AD_FORMAT_HALF: return vm::Channel::Half;
    case CU_AD_FORMAT_FLOAT: return vm::Channel::Float;
    default: return {};
  }
}

namespace {

constexpr unsigned kKnownFlags = CUDA_ARRAY3D_LAYERED | CUDA_ARRAY3D_SURFACE_LDST |
                                 CUDA_ARRAY3D_CUBEMAP | CUDA_ARRAY3D_TEXTURE_GATHER;

}  // namespace

CUresult check_description(const Context &c, const CUDA_ARRAY3D_DESCRIPTOR &d, bool mipmapped) {
  REQUIRE(d.NumChannels == 1 || d.NumChannels == 2 || d.NumChannels == 4, CUDA_ERROR_INVALID_VALUE);
  if (!channel_of(d.Format))
    return refuse(fmt::format("an array of the format {:#x}", static_cast<u32>(d.Format)));
  if (unsigned unknown = d.Flags & ~kKnownFlags; unknown != 0)
    return refuse(fmt::format("an array with the flags {:#x}", unknown));
  return check_extents(c, d, mipmapped);
}

std::unique_ptr<Array> array_at(Context *c, const CUDA_ARRAY3D_DESCRIPTOR &d, u64 base) {
  auto a = std::make_unique<Array>();
  a->context = c;
  a->desc = d;
  a->base = base;
  a->row_bytes = api::ArrayShape(d).row_bytes;
  a->slice_bytes = api::ArrayShape(d).slice_bytes();
  return a;
}

u64 bytes_of(const Array &a) { return api::ArrayShape(a.desc).bytes(); }

void end_arrays(const Context *c) {
  for (Mipmap *m : process().mipmaps.all())
    if (m->context == c && process().mipmaps.remove(m)) {
      for (std::unique_ptr<Array> &level : m->levels) {
        process().arrays.remove(level.get());
        end_textures_of(*level);
      }
      delete m;
    }
  for (Array *a : process().arrays.all())
    if (a->context == c && process().arrays.remove(a)) {
      end_textures_of(*a);
      delete a;
    }
}

}  // namespace ckpt::softcuda::driver

using namespace ckpt;
using namespace ckpt::softcuda;
using namespace ckpt::softcuda::driver;

SOFTCUDA_API CUresult cuArray3DCreate_v2(CUarray *out, const CUDA_ARRAY3D_DESCRIPTOR *d) {
  CALL_WITH_CONTEXT();
  REQUIRE(out != nullptr && d != nullptr, CUDA_ERROR_INVALID_VALUE);
  CHECK_CU(check_description(*call.context, *d, false));
  std::unique_ptr<Array> a = array_at(call.context, *d, 0);
  std::optional<Allocation> m =
      process().memory->allocate(static_cast<u32>(call.context->device->index), bytes_of(*a),
                                 MemoryKind::Device, call.context);
  REQUIRE(m, CUDA_ERROR_OUT_OF_MEMORY);
  a->base = m->base;
  *out = reinterpret_cast<CUarray>(process().arrays.add(a.release()));
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuArrayCreate_v2(CUarray *out, const CUDA_ARRAY_DESCRIPTOR *d) {
  REQUIRE(d != nullptr, CUDA_ERROR_INVALID_VALUE);
  CUDA_ARRAY3D_DESCRIPTOR three{};
  three.Width = d->Width;
  three.Height = d->Height;
  three.Format = d->Format;
  three.NumChannels = d->NumChannels;
  return cuArray3DCreate_v2(out, &three);
}

SOFTCUDA_API CUresult cuArray3DGetDescriptor_v2(CUDA_ARRAY3D_DESCRIPTOR *d, CUarray array) {
  CALL_WITH_CONTEXT();
  const Array *a = process().arrays.get(array);
  REQUIRE(d != nullptr, CUDA_ERROR_INVALID_VALUE);
  REQUIRE(a != nullptr, CUDA_ERROR_INVALID_HANDLE);
  *d = a->desc;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuArrayGetDescriptor_v2(CUDA_ARRAY_DESCRIPTOR *d, CUarray array) {
  CUDA_ARRAY3D_DESCRIPTOR three{};
  REQUIRE(d != nullptr, CUDA_ERROR_INVALID_VALUE);
  CHECK_CU(cuArray3DGetDescriptor_v2(&three, array));
  *d = {three.Width, three.Height, three.Format, three.NumChannels};
  return CUDA_SUCCESS;
}

// Only the memory of an array that is created without any (CUDA_ARRAY3D_DEFERRED_MAPPING, which
// this device refuses) has requirements.
SOFTCUDA_API CUresult cuArrayGetMemoryRequirements(CUDA_ARRAY_MEMORY_REQUIREMENTS *, CUarray,
                                                   CUdevice) {
  CALL_WITH_CONTEXT();
  return CUDA_ERROR_INVALID_VALUE;
}

// A level ends with its mipmapped array.
SOFTCUDA_API CUresult cuArrayDestroy(CUarray array) {
  CALL_WITH_CONTEXT();
  Array *a = process().arrays.get(array);
  REQUIRE(a != nullptr && a->mipmap == nullptr, CUDA_ERROR_INVALID_HANDLE);
  call.context->synchronize();
  REQUIRE(process().arrays.remove(a), CUDA_ERROR_INVALID_HANDLE);
  end_textures_of(*a);
  process().memory->release(a->base, MemoryKind::Device);
  delete a;
  return CUDA_SUCCESS;
}
