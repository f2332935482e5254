// SPDX-License-Identifier: Apache-2.0
//
// Objects of the program that live as long as graphs need them (CUDA driver API, "Graph
// Management"). The program's references are counted here; each graph and each copy of it has its
// own.
#include <algorithm>

#include "softcuda/driver/graphs/graph.h"

namespace ckpt::softcuda::driver {

struct UserObject {
  void *data = nullptr;
  CUhostFn destroy = nullptr;
  ~UserObject() { destroy(data); }
};

namespace {

struct Entry {
  std::shared_ptr<UserObject> object;
  u64 count = 0;
};

std::mutex objects_mutex;
std::map<const void *, Entry> &entries() {
  static auto *const kEntries = new std::map<const void *, Entry>;
  return *kEntries;
}

// Takes `count` references from the program. `last` receives the object if these were its last
// ones, so that it is destroyed outside of the lock.
CUresult release_references(const void *handle, u64 count, std::shared_ptr<UserObject> &last) {
  auto it = entries().find(handle);
  REQUIRE(it != entries().end() && count > 0 && it->second.count >= count,
          CUDA_ERROR_INVALID_VALUE);
  it->second.count -= count;
  if (it->second.count > 0) return CUDA_SUCCESS;
  last = std::move(it->second.object);
  entries().erase(it);
  return CUDA_SUCCESS;
}

}  // namespace
}  // namespace ckpt::softcuda::driver

using namespace ckpt::softcuda;
using namespace ckpt::softcuda::driver;

SOFTCUDA_API CUresult cuUserObjectCreate(CUuserObject *out, void *data, CUhostFn destroy,
                                         unsigned int count, unsigned int flags) {
  CALL_INITIALISED();
  REQUIRE(out != nullptr && destroy != nullptr && count > 0 &&
              flags == CU_USER_OBJECT_NO_DESTRUCTOR_SYNC,
          CUDA_ERROR_INVALID_VALUE);
  auto object = std::make_shared<UserObject>();
  object->data = data;
  object->destroy = destroy;
  *out = reinterpret_cast<CUuserObject>(object.get());
  std::lock_guard lock(objects_mutex);
  entries()[object.get()] = {object, count};
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuUserObjectRetain(CUuserObject handle, unsigned int count) {
  CALL_INITIALISED();
  std::lock_guard lock(objects_mutex);
  auto it = entries().find(handle);
  REQUIRE(it != entries().end() && count > 0, CUDA_ERROR_INVALID_VALUE);
  it->second.count += count;
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuUserObjectRelease(CUuserObject handle, unsigned int count) {
  CALL_INITIALISED();
  std::shared_ptr<UserObject> last;  // destroyed after the lock is released
  std::lock_guard lock(objects_mutex);
  return release_references(handle, count, last);
}

SOFTCUDA_API CUresult cuGraphRetainUserObject(CUgraph graph, CUuserObject handle,
                                              unsigned int count, unsigned int flags) {
  CALL_INITIALISED();
  Graph *g = graph_registry().graphs.get(graph);
  std::shared_ptr<UserObject> last;
  std::lock_guard lock(objects_mutex);
  auto it = entries().find(handle);
  REQUIRE(g != nullptr && it != entries().end() && count > 0, CUDA_ERROR_INVALID_VALUE);
  g->objects.insert(g->objects.end(), count, it->second.object);
  return (flags & CU_GRAPH_USER_OBJECT_MOVE) != 0 ? release_references(handle, count, last)
                                                  : CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuGraphReleaseUserObject(CUgraph graph, CUuserObject handle,
                                               unsigned int count) {
  CALL_INITIALISED();
  Graph *g = graph_registry().graphs.get(graph);
  REQUIRE(g != nullptr && count > 0, CUDA_ERROR_INVALID_VALUE);
  std::vector<std::shared_ptr<UserObject>> dropped;
  for (; count > 0; --count) {
    auto it = std::ranges::find_if(g->objects, [&](const std::shared_ptr<UserObject> &o) {
      return static_cast<const void *>(o.get()) == handle;
    });
    REQUIRE(it != g->objects.end(), CUDA_ERROR_INVALID_VALUE);
    dropped.push_back(std::move(*it));
    g->objects.erase(it);
  }
  return CUDA_SUCCESS;
}
