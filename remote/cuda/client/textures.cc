// SPDX-License-Identifier: Apache-2.0
//
// Texture and surface objects. The program gets the driver's own value, because it passes it to
// kernels, perhaps inside of structures.
#include "remote/cuda/client/textures.h"

#include <map>

#include "remote/cuda/client/client.h"

namespace ckpt::remote::cuda {
namespace {

struct Texture {
  u64 context = 0;
  CUDA_RESOURCE_DESC resource{};
  CUDA_TEXTURE_DESC texture{};
  CUDA_RESOURCE_VIEW_DESC view{};
  bool viewed = false;
};
using Key = std::pair<bool, u64>;  // true: a surface; the object

struct Table {
  std::mutex mutex;
  std::map<Key, Texture> all;
};
Table &table() {
  static Table *const kTable = new Table;
  return *kTable;
}

template <class T>
void put_optional(Writer &w, const T *value) {
  w.put(u8{value != nullptr});
  if (value) w.raw(value, sizeof *value);
}

CUresult make(bool surface, const CUDA_RESOURCE_DESC *r, const CUDA_TEXTURE_DESC *t,
              const CUDA_RESOURCE_VIEW_DESC *v, unsigned long long *out) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!out || !r || (!surface && !t)) return CUDA_ERROR_INVALID_VALUE;
  if (r->resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
    return refuse("a texture of a mipmapped array", "such arrays are not carried to other nodes");
  Writer w;
  w.put(u8{surface}).raw(r, sizeof *r);
  put_optional(w, t);
  put_optional(w, v);
  Bytes reply;
  if (CUresult e = ask(Op::MakeTexture, w, &reply); e != CUDA_SUCCESS) return e;
  Texture made{current_context(), *r, t ? *t : CUDA_TEXTURE_DESC{},
               v ? *v : CUDA_RESOURCE_VIEW_DESC{}, v != nullptr};
  *out = Reader(reply).get<u64>();
  std::lock_guard lock(table().mutex);
  table().all[{surface, *out}] = made;
  return CUDA_SUCCESS;
}

CUresult end(bool surface, u64 object) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  Writer w;
  CUresult e = ask(Op::EndTexture, w.put(u8{surface}).put(object));
  if (e != CUDA_SUCCESS) return e;
  std::lock_guard lock(table().mutex);
  table().all.erase({surface, object});
  return e;
}

// Gives `read` what the object was made of.
template <class F>
CUresult look_up(bool surface, u64 object, const void *out, F read) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  std::lock_guard lock(table().mutex);
  auto found = table().all.find({surface, object});
  if (!out || found == table().all.end()) return CUDA_ERROR_INVALID_VALUE;
  return read(found->second);
}

CUresult resource_of(bool surface, CUDA_RESOURCE_DESC *out, u64 object) {
  return look_up(surface, object, out, [&](const Texture &t) {
    *out = t.resource;
    return CUDA_SUCCESS;
  });
}

}  // namespace

// Those of a context that has ended have ended with it.
bool has_textures() {
  std::lock_guard lock(table().mutex);
  std::erase_if(table().all, [](const auto &t) { return !ledger().lives(t.second.context); });
  return !table().all.empty();
}

CUresult entry_cuTexObjectCreate(CUtexObject *out, const CUDA_RESOURCE_DESC *r,
                                 const CUDA_TEXTURE_DESC *t, const CUDA_RESOURCE_VIEW_DESC *v) {
  return make(false, r, t, v, out);
}
CUresult entry_cuTexObjectDestroy(CUtexObject object) { return end(false, object); }
CUresult entry_cuTexObjectGetResourceDesc(CUDA_RESOURCE_DESC *out, CUtexObject object) {
  return resource_of(false, out, object);
}
CUresult entry_cuTexObjectGetTextureDesc(CUDA_TEXTURE_DESC *out, CUtexObject object) {
  return look_up(false, object, out, [&](const Texture &t) {
    *out = t.texture;
    return CUDA_SUCCESS;
  });
}
CUresult entry_cuTexObjectGetResourceViewDesc(CUDA_RESOURCE_VIEW_DESC *out, CUtexObject object) {
  return look_up(false, object, out, [&](const Texture &t) {
    *out = t.view;
    return t.viewed ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  });
}

CUresult entry_cuSurfObjectCreate(CUsurfObject *out, const CUDA_RESOURCE_DESC *r) {
  return make(true, r, nullptr, nullptr, out);
}
CUresult entry_cuSurfObjectDestroy(CUsurfObject object) { return end(true, object); }
CUresult entry_cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *out, CUsurfObject object) {
  return resource_of(true, out, object);
}

}  // namespace ckpt::remote::cuda
