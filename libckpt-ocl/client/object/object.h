// SPDX-License-Identifier: Apache-2.0
//
// What the application's handles point to. An object is ours and lives in the application's heap,
// so CRIU keeps it, its handle stays valid, and the set of live objects with the messages that made
// them (`ledger_entries`) is the ledger from which another device is furnished (design decision 3).
//
// An object lives as long as the application's count or another object keeps it: a kernel its
// program, a sub-buffer its buffer, a command its queue.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <vector>

#include "libckpt-ocl/client/object/ref.h"
#include "libckpt-ocl/table.h"

struct _cl_icd_dispatch;

namespace ckpt::ocl {

// A message to the proxy, kept to be sent again. `when` orders the steps of all objects.
struct LedgerEntry {
  u64 when;
  u16 op;
  Bytes payload;
};

struct Object {
  // The ICD loader reads the first word of every handle.
  const _cl_icd_dispatch *dispatch;
  Kind kind;
  std::atomic<u32> app_count{1};  // clRetain…/clRelease…
  std::atomic<u32> keepers{1};    // app_count > 0 counts as one
  u64 number;                     // its name on the wire, never used again
  std::vector<LedgerEntry>
      ledger_entries;  // in order; guarded by the registry while a restore is under way

  explicit Object(Kind k);
  void record(u16 op, Bytes payload);  // one more step
  Object(const Object &) = delete;
  void keep() { keepers.fetch_add(1, std::memory_order_relaxed); }
  void drop();
};

// All live objects by number: creation order, in which they can be made again.
class Registry {
 public:
  void add(Object *o);
  void remove(Object *o);
  bool holds(const void *handle, Kind kind);
  // Calls f(T &) for each one, in order of creation. None of them goes away meanwhile, so f must
  // neither wait nor keep, drop or make any.
  template <class T, class F>
  void each(F f) {
    std::lock_guard lock(mutex_);
    for (auto &[number, o] : objects_)
      if (o->kind == T::kKind) f(*static_cast<T *>(o));
  }
  // Objects of one kind, or of all (Kind::None), in order of creation. Only behind a shut gate, or
  // where they live for ever: nothing keeps them.
  std::vector<Object *> all(Kind kind);
  template <class T>
  std::vector<T *> all() {
    std::vector<T *> out;
    for (Object *o : all(T::kKind)) out.push_back(static_cast<T *>(o));
    return out;
  }

 private:
  std::mutex mutex_;
  std::map<u64, Object *> objects_;
  std::map<const void *, Kind> handles_;
};

Registry &registry();

// The object behind a handle, or nullptr if it is none of that type. Like every driver we read the
// handle's memory: a dangling one is the application's undefined behaviour.
template <class T>
T *object(const void *handle) {
  auto *o = static_cast<Object *>(const_cast<void *>(handle));
  return o && o->kind == T::kKind ? static_cast<T *>(o) : nullptr;
}

// clRetain… and clRelease…: `invalid` is the API's error for a handle that is none.
template <class T>
cl_int retain(const void *handle, cl_int invalid) {
  T *o = object<T>(handle);
  if (!o || o->app_count.load() == 0) return invalid;
  o->app_count.fetch_add(1);
  return CL_SUCCESS;
}
template <class T>
cl_int release(const void *handle, cl_int invalid) {
  T *o = object<T>(handle);
  if (!o || o->app_count.load() == 0) return invalid;
  if (o->app_count.fetch_sub(1) == 1) o->drop();
  return CL_SUCCESS;
}

// OpenCL's handles are opaque pointers to structs of its own names.
template <class H>
H handle(Object *o) {
  return reinterpret_cast<H>(o);
}

}  // namespace ckpt::ocl
