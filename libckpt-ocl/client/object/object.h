// SPDX-License-Identifier: Apache-2.0
//
// The objects to which the application's handles point. An object is in the application's heap, so
// CRIU saves it and its handle stays valid. The live objects together with the commands that
// created them (`ledger_entries`) are the ledger: sent again in order, they recreate every object
// on another device. Destroying an object erases its entries.
//
// An object lives as long as the application's reference count or another object keeps it: a kernel
// keeps its program, a sub-buffer its buffer, a command its queue. ref.h has the rule.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "libckpt-ocl/client/object/ref.h"
#include "libckpt-ocl/headers.h"
#include "ring/table.h"

struct _cl_icd_dispatch;

namespace ckpt::ocl {

// A command to the proxy that is kept to be sent again. `when` orders the entries of all objects.
struct LedgerEntry {
  u64 when;
  u16 op;
  Bytes payload;
  std::shared_ptr<const Headers> headers = {};  // of Op::Headers: they follow the payload
};

struct Object {
  // The ICD loader reads the first word of every handle.
  const _cl_icd_dispatch *dispatch;
  Kind kind;
  std::atomic<u32> app_count{1};  // the application's references (clRetain…, clRelease…)
  std::atomic<u32> keepers{1};    // references of other objects, and one while app_count > 0
  u64 number;                     // the object's name on the wire, never used again
  std::vector<LedgerEntry> ledger_entries;

  explicit Object(Kind k);
  // Adds a ledger entry.
  void record(u16 op, Bytes payload, std::shared_ptr<const Headers> headers = {});
  Object(const Object &) = delete;
  void keep() { keepers.fetch_add(1, std::memory_order_relaxed); }
  // Returns false if the object is being destroyed.
  bool try_keep();
  void drop();
};

// All live objects by number, which is the order of their creation.
class Registry {
 public:
  void add(Object *o);
  void remove(Object *o);
  bool holds(const void *handle, Kind kind);
  // The object with this number; null if it is not live.
  template <class T>
  Ref<T> find(u64 number) {
    std::lock_guard lock(mutex_);
    auto it = objects_.find(number);
    if (it == objects_.end() || it->second->kind != T::kKind || !it->second->try_keep()) return {};
    Ref<T> found(static_cast<T *>(it->second));
    it->second->keepers.fetch_sub(1, std::memory_order_relaxed);  // of try_keep(): `found` keeps it
    return found;
  }
  // Calls f(T &) for each object of a type, in order of creation, with the registry locked: f must
  // neither wait nor create, keep or drop an object.
  template <class T, class F>
  void each(F f) {
    std::lock_guard lock(mutex_);
    for (auto &[number, o] : objects_)
      if (o->kind == T::kKind) f(*static_cast<T *>(o));
  }
  // Objects of one kind, or of all kinds (Kind::None), in order of creation. The result keeps no
  // references: call it with the gate closed, or for objects that are never destroyed. For that,
  // the library's own threads drop references inside the gate only.
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

// The object behind a handle, or nullptr if the handle is of another type. This reads the handle's
// memory, as every driver does; a dangling handle is undefined behaviour of the application.
template <class T>
T *object(const void *handle) {
  auto *o = static_cast<Object *>(const_cast<void *>(handle));
  return o && o->kind == T::kKind ? static_cast<T *>(o) : nullptr;
}

// clRetain… and clRelease…. `invalid` is the API's error for an invalid handle.
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

// OpenCL's handle types are pointers to opaque structs.
template <class H>
H handle(Object *o) {
  return reinterpret_cast<H>(o);
}

}  // namespace ckpt::ocl
