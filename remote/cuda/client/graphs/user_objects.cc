// SPDX-License-Identifier: Apache-2.0
//
// Objects of the program that live as long as graphs need them (CUDA driver API, "Graph
// Management"). The program's references are counted here; a graph and each copy of it has its own,
// and so has a host function that was launched and has not returned yet.
#include "remote/cuda/client/graphs/live.h"

namespace ckpt::remote::cuda {

struct UserObject {
  void *data = nullptr;
  CUhostFn destroy = nullptr;
  ~UserObject() { destroy(data); }
};

namespace {

struct References {
  std::shared_ptr<UserObject> object;
  u64 count = 0;  // of the program
};

// Guarded by the lock of live().
std::unordered_map<const void *, References> &references() {
  static auto *const kReferences = new std::unordered_map<const void *, References>;
  return *kReferences;
}

References *find(CUuserObject object) {
  auto found = references().find(object);
  return found == references().end() ? nullptr : &found->second;
}

CUresult release(Live &all, CUuserObject object, u64 count) {
  References *r = find(object);
  if (!r || count == 0 || r->count < count) return CUDA_ERROR_INVALID_VALUE;
  if ((r->count -= count) > 0) return CUDA_SUCCESS;
  all.drop(std::move(r->object));
  references().erase(object);
  return CUDA_SUCCESS;
}

}  // namespace

CUresult entry_cuUserObjectCreate(CUuserObject *out, void *data, CUhostFn destroy, unsigned count,
                                  unsigned flags) {
  return with_graphs([&](Live &) {
    if (!out || !destroy || count == 0 || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
      return CUDA_ERROR_INVALID_VALUE;
    auto object = std::make_shared<UserObject>();
    object->data = data;
    object->destroy = destroy;
    *out = reinterpret_cast<CUuserObject>(object.get());
    references().emplace(object.get(), References{object, count});
    return CUDA_SUCCESS;
  });
}

CUresult entry_cuUserObjectRetain(CUuserObject object, unsigned count) {
  return with_graphs([&](Live &) {
    References *r = find(object);
    if (!r || count == 0) return CUDA_ERROR_INVALID_VALUE;
    r->count += count;
    return CUDA_SUCCESS;
  });
}

CUresult entry_cuUserObjectRelease(CUuserObject object, unsigned count) {
  return with_graphs([&](Live &all) { return release(all, object, count); });
}

CUresult entry_cuGraphRetainUserObject(CUgraph graph, CUuserObject object, unsigned count,
                                       unsigned flags) {
  return with_graphs([&](Live &all) {
    Graph *g = all.graph(graph);
    const References *r = find(object);
    bool move = flags == CU_GRAPH_USER_OBJECT_MOVE;
    if (!g || !r || count == 0 || (flags != 0 && !move) || (move && r->count < count))
      return CUDA_ERROR_INVALID_VALUE;
    g->objects.insert(g->objects.end(), count, r->object);
    return move ? release(all, object, count) : CUDA_SUCCESS;
  });
}

CUresult entry_cuGraphReleaseUserObject(CUgraph graph, CUuserObject object, unsigned count) {
  return with_graphs([&](Live &all) {
    Graph *g = all.graph(graph);
    if (!g || count == 0) return CUDA_ERROR_INVALID_VALUE;
    auto same = [&](const std::shared_ptr<UserObject> &o) {
      return static_cast<const void *>(o.get()) == object;
    };
    if (static_cast<size_t>(std::ranges::count_if(g->objects, same)) < count)
      return CUDA_ERROR_INVALID_VALUE;
    for (; count > 0; count--) {
      auto found = std::ranges::find_if(g->objects, same);
      all.drop(std::move(*found));
      g->objects.erase(found);
    }
    return CUDA_SUCCESS;
  });
}

}  // namespace ckpt::remote::cuda
