// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/codec.h"
#include "remote/cuda/server/ops.h"

namespace ckpt::remote::cuda {
namespace {

template <class T>
bool take_plain(Call &c, T &out) {
  ByteView bytes = c.in.raw(sizeof out);
  if (c.in.ok()) std::memcpy(static_cast<void *>(&out), bytes.data(), sizeof out);
  return c.in.ok();
}

// A pointer to `value` if the call has it.
template <class T>
const T *take_optional(Call &c, T &value) {
  return c.in.get<u8>() != 0 && take_plain(c, value) ? &value : nullptr;
}

// With the driver's array in place of its number, and only memory of the program.
CUresult resolve(Call &c, CUDA_RESOURCE_DESC &r) {
  const DeviceMemory &memory = c.server.memory;
  bool ok = false;
  if (r.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY) {
    u64 number = number_of(r.res.mipmap.hMipmappedArray);
    void *real = c.server.objects.real(Kind::Mipmap, number);
    r.res.mipmap.hMipmappedArray = static_cast<CUmipmappedArray>(real);
    return real ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  }
  if (r.resType == CU_RESOURCE_TYPE_ARRAY) {
    u64 number = number_of(r.res.array.hArray);
    r.res.array.hArray = static_cast<CUarray>(c.server.objects.real(Kind::Array, number));
    return r.res.array.hArray ? CUDA_SUCCESS : CUDA_ERROR_INVALID_HANDLE;
  }
  if (r.resType == CU_RESOURCE_TYPE_LINEAR)
    ok = memory.holds(r.res.linear.devPtr, r.res.linear.sizeInBytes);
  u64 bytes = 0;
  if (r.resType == CU_RESOURCE_TYPE_PITCH2D)
    ok = !__builtin_mul_overflow(r.res.pitch2D.pitchInBytes, r.res.pitch2D.height, &bytes) &&
         memory.holds(r.res.pitch2D.devPtr, bytes);
  return ok ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

struct MadeTexture {
  bool surface = false;
  u64 object = 0;
};

CUresult make_texture(Call &c, MadeTexture &out) {
  CUDA_RESOURCE_DESC r{};
  CUDA_TEXTURE_DESC t{};
  CUDA_RESOURCE_VIEW_DESC v{};
  out.surface = c.in.get<u8>() != 0;
  if (!take_plain(c, r)) return c.reject();
  const CUDA_TEXTURE_DESC *texture = take_optional(c, t);
  const CUDA_RESOURCE_VIEW_DESC *view = take_optional(c, v);
  if (!c.in.done()) return c.reject();
  if (CUresult e = resolve(c, r); e != CUDA_SUCCESS) return e;
  if (!out.surface && !texture) return CUDA_ERROR_INVALID_VALUE;
  unsigned long long object = 0;
  CUresult e = out.surface ? driver().cuSurfObjectCreate(&object, &r)
                           : driver().cuTexObjectCreate(&object, &r, texture, view);
  out.object = object;
  return e;
}

CUresult destroy(bool surface, u64 object) {
  return surface ? driver().cuSurfObjectDestroy(object) : driver().cuTexObjectDestroy(object);
}

CUresult end_texture(Call &c) {
  bool surface = c.in.get<u8>() != 0;
  u64 key = c.in.get<u64>();
  if (!c.in.done()) return c.reject();
  std::optional<u64> object = c.server.arrays.remove_texture(surface, key);
  return object ? destroy(surface, *object) : CUDA_ERROR_INVALID_VALUE;
}

}  // namespace

CUresult op_make_array(Call &c) {
  u64 number = c.in.get<u64>();
  CUDA_ARRAY3D_DESCRIPTOR d{};
  if (!take_plain(c, d) || !c.in.done() || kind_of(number) != Kind::Array) return c.reject();
  CUarray made = nullptr;
  CUresult e = c.server.arrays.make(d, made);
  if (e != CUDA_SUCCESS) return e;
  c.makes = true;
  c.put_number(number, made, c.header.context);
  if (!c.malformed) c.server.arrays.add(number, d);
  return e;
}

CUresult op_make_mipmap(Call &c) {
  u64 number = c.in.get<u64>();
  CUDA_ARRAY3D_DESCRIPTOR d{};
  if (!take_plain(c, d)) return c.reject();
  u32 levels = c.in.get<u32>();
  if (!c.in.done() || kind_of(number) != Kind::Mipmap) return c.reject();
  CUmipmappedArray made = nullptr;
  CUresult e = c.server.arrays.make_mipmap(d, levels, made);
  if (e != CUDA_SUCCESS) return e;
  c.makes = true;
  c.put_number(number, made, c.header.context);
  if (!c.malformed) c.server.arrays.add(number, d, levels);
  return e;
}

// It ends with the mipmapped array.
CUresult op_mipmap_level(Call &c) {
  u64 number = c.in.get<u64>(), mipmap = c.in.get<u64>();
  u32 level = c.in.get<u32>();
  if (!c.in.done() || kind_of(number) != Kind::Array) return c.reject();
  void *real = c.server.objects.real(Kind::Mipmap, mipmap);
  if (!real) return CUDA_ERROR_INVALID_HANDLE;
  CUarray found = nullptr;
  CUresult e =
      driver().cuMipmappedArrayGetLevel(&found, static_cast<CUmipmappedArray>(real), level);
  if (e == CUDA_SUCCESS) c.put_number(number, found, mipmap);
  return e;
}

CUresult op_make_texture(Call &c) {
  MadeTexture made;
  if (CUresult e = make_texture(c, made); e != CUDA_SUCCESS) return e;
  c.server.arrays.add_texture(made.surface, made.object, made.object);
  c.out.put(made.object);
  return CUDA_SUCCESS;
}

CUresult op_end_texture(Call &c) { return end_texture(c); }

CUresult op_make_texture_at(Call &c) {
  u64 cell = c.in.get<u64>();
  if (cell % sizeof cell != 0 || !c.server.memory.maps(cell, sizeof cell))
    return CUDA_ERROR_INVALID_VALUE;
  MadeTexture made;
  if (CUresult e = make_texture(c, made); e != CUDA_SUCCESS) return e;
  CUresult e = c.server.streams.write(c.header.context, cell, view(&made.object, sizeof cell));
  if (e != CUDA_SUCCESS) return (void)destroy(made.surface, made.object), e;
  c.server.arrays.add_texture(made.surface, cell, made.object);
  c.out.put(cell);
  return e;
}

CUresult op_end_texture_at(Call &c) { return end_texture(c); }

}  // namespace ckpt::remote::cuda
