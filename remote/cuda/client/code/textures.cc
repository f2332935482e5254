// SPDX-License-Identifier: Apache-2.0
//
// Texture and surface objects. handle_table.h says what the program gets as their handles.
#include "remote/cuda/client/code/textures.h"

#include <map>

#include "remote/cuda/client/code/handle_table.h"
#include "remote/cuda/client/copies/arrays.h"
#include "remote/cuda/client/memory/memory.h"

namespace ckpt::remote::cuda {
namespace {

struct Texture {
  u64 context = 0;
  CUDA_RESOURCE_DESC resource{};
  CUDA_TEXTURE_DESC texture{};
  CUDA_RESOURCE_VIEW_DESC view{};
  bool viewed = false;
  bool missing = false;  // on this server, as what it shows had ended before the move
};
using Key = std::pair<bool, u64>;  // true: a surface; the object

struct TextureTable {
  std::mutex mutex;
  std::map<Key, Texture> all;
};
TextureTable &texture_table() {
  static TextureTable *const kTable = new TextureTable;
  return *kTable;
}

template <class T>
void put_optional(Writer &w, const T *value) {
  w.put(u8{value != nullptr});
  if (value) w.raw(value, sizeof *value);
}

// What the program asks for, as both calls have it.
struct WantedTexture {
  bool surface;
  const CUDA_RESOURCE_DESC *resource;
  const CUDA_TEXTURE_DESC *texture;
  const CUDA_RESOURCE_VIEW_DESC *view;

  void put(Writer &w) const {
    w.put(u8{surface}).raw(resource, sizeof *resource);
    put_optional(w, texture);
    put_optional(w, view);
  }
  Texture noted() const {
    return {current_context(), *resource, texture ? *texture : CUDA_TEXTURE_DESC{},
            view ? *view : CUDA_RESOURCE_VIEW_DESC{}, view != nullptr};
  }
};

CUresult make_with_cell(const WantedTexture &wanted, u64 cell) {
  Writer w;
  wanted.put(w.put(cell));
  Bytes reply;
  CUresult e = ask(Op::MakeTextureAt, w, &reply);
  u64 made = 0;
  if (e == CUDA_SUCCESS) e = read_reply(reply, made);
  if (e == CUDA_SUCCESS && made != cell) e = link().malformed();
  if (e != CUDA_SUCCESS) return give_cell(cell), e;
  u64 context = current_context();
  ledger().add(cell, context, {number(Op::MakeTextureAt), context, w.take()});
  return e;
}

CUresult make_with_drivers_handle(const WantedTexture &wanted, u64 &handle) {
  Writer w;
  wanted.put(w);
  Bytes reply;
  CUresult e = ask(Op::MakeTexture, w, &reply);
  if (e == CUDA_SUCCESS) e = read_reply(reply, handle);
  if (e != CUDA_SUCCESS || !is_cell(handle)) return e;
  (void)ask(Op::EndTexture, Writer().put(u8{wanted.surface}).put(handle));
  return refuse("a texture object", "the driver's handle is an address of the handle table");
}

CUresult make(const WantedTexture &wanted, unsigned long long *out) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  if (!out || !wanted.resource || (!wanted.surface && !wanted.texture))
    return CUDA_ERROR_INVALID_VALUE;
  u64 handle = 0;
  if (CUresult e = take_cell(handle); e != CUDA_SUCCESS) return e;
  CUresult e = handle ? make_with_cell(wanted, handle) : make_with_drivers_handle(wanted, handle);
  if (e != CUDA_SUCCESS) return e;
  std::lock_guard lock(texture_table().mutex);
  texture_table().all[{wanted.surface, handle}] = wanted.noted();
  *out = handle;
  return CUDA_SUCCESS;
}

// Whether the program has the object here, of which context, and whether the server has it.
bool find(bool surface, u64 object, u64 &context, bool &missing) {
  std::lock_guard lock(texture_table().mutex);
  auto found = texture_table().all.find({surface, object});
  if (found == texture_table().all.end()) return false;
  context = found->second.context;
  missing = found->second.missing;
  return true;
}

CUresult end(bool surface, u64 object) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  bool missing = false;
  u64 context = 0;
  if (!find(surface, object, context, missing)) return CUDA_ERROR_INVALID_VALUE;
  Op op = is_cell(object) ? Op::EndTextureAt : Op::EndTexture;
  Writer w;
  w.put(u8{surface}).put(object);
  CUresult e = missing ? CUDA_SUCCESS : ask(op, site_beside(context), w);
  if (e != CUDA_SUCCESS) return e;
  {
    std::lock_guard lock(texture_table().mutex);
    texture_table().all.erase({surface, object});
  }
  if (is_cell(object)) object_ended(object);
  return e;
}

// Gives `read` what the object was made of.
template <class F>
CUresult look_up(bool surface, u64 object, const void *out, F read) {
  if (CUresult e = ready(); e != CUDA_SUCCESS) return e;
  std::lock_guard lock(texture_table().mutex);
  auto found = texture_table().all.find({surface, object});
  if (!out || found == texture_table().all.end()) return CUDA_ERROR_INVALID_VALUE;
  return read(found->second);
}

CUresult resource_of(bool surface, CUDA_RESOURCE_DESC *out, u64 object) {
  return look_up(surface, object, out, [&](const Texture &t) {
    *out = t.resource;
    return CUDA_SUCCESS;
  });
}

// Programs free an array first and its texture later. The server asks the same of memory.
bool is_there(const CUDA_RESOURCE_DESC &r) {
  if (r.resType == CU_RESOURCE_TYPE_ARRAY) return is_array(number_of(r.res.array.hArray));
  if (r.resType == CU_RESOURCE_TYPE_MIPMAPPED_ARRAY)
    return ledger().lives(number_of(r.res.mipmap.hMipmappedArray));
  if (r.resType == CU_RESOURCE_TYPE_LINEAR)
    return memory().maps(r.res.linear.devPtr, r.res.linear.sizeInBytes);
  return memory().maps(r.res.pitch2D.devPtr, r.res.pitch2D.pitchInBytes * r.res.pitch2D.height);
}

}  // namespace

bool texture_can_be_made(u64 cell) {
  std::lock_guard lock(texture_table().mutex);
  for (bool surface : {false, true}) {
    auto found = texture_table().all.find({surface, cell});
    if (found == texture_table().all.end()) continue;
    found->second.missing = !is_there(found->second.resource);
    return !found->second.missing;
  }
  return true;
}

void texture_ended(u64 number) {
  if (!is_cell(number)) return;
  {
    std::lock_guard lock(texture_table().mutex);
    texture_table().all.erase({false, number});
    texture_table().all.erase({true, number});
  }
  give_cell(number);
}

// Those of a context that has ended have ended with it.
std::string texture_obstacle() {
  {
    std::lock_guard lock(texture_table().mutex);
    std::erase_if(texture_table().all,
                  [](const auto &t) { return !ledger().lives(t.second.context); });
    bool drivers = std::ranges::any_of(texture_table().all,
                                       [](const auto &t) { return !is_cell(t.first.second); });
    if (!drivers) return {};
  }
  if (!handles_are_cells())
    return fmt::format("it has texture or surface objects with the driver's handles, as {} says",
                       kHandlesVariable);
  std::string opaque = name_of_opaque();
  return fmt::format(
      "it has texture or surface objects with the driver's handles, because {} may use them and "
      "cannot be changed: it has no PTX, or none for each of its cubins",
      opaque.empty() ? "code that has been unloaded" : opaque);
}

CUresult entry_cuTexObjectCreate(CUtexObject *out, const CUDA_RESOURCE_DESC *r,
                                 const CUDA_TEXTURE_DESC *t, const CUDA_RESOURCE_VIEW_DESC *v) {
  return make({false, r, t, v}, out);
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
  return make({true, r, nullptr, nullptr}, out);
}
CUresult entry_cuSurfObjectDestroy(CUsurfObject object) { return end(true, object); }
CUresult entry_cuSurfObjectGetResourceDesc(CUDA_RESOURCE_DESC *out, CUsurfObject object) {
  return resource_of(true, out, object);
}

}  // namespace ckpt::remote::cuda
