// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/object/object.h"

#include "libckpt-ocl/client/entry/icd.h"
#include "libckpt-ocl/client/object/objects.h"

namespace ckpt::ocl {
namespace {

std::atomic<u64> g_next_number{1};
std::atomic<u64> g_next_step{1};

}  // namespace

Object::Object(Kind k) : dispatch(icd_dispatch()), kind(k), number(g_next_number.fetch_add(1)) {}

void Object::record(u16 op, Bytes payload, std::shared_ptr<const Headers> headers) {
  ledger_entries.push_back({g_next_step.fetch_add(1), op, std::move(payload), std::move(headers)});
}

bool Object::try_keep() {
  u32 n = keepers.load(std::memory_order_relaxed);
  while (n > 0 && !keepers.compare_exchange_weak(n, n + 1, std::memory_order_relaxed)) {
  }
  return n > 0;
}

void Object::drop() {
  if (keepers.fetch_sub(1, std::memory_order_acq_rel) == 1) destroy(this);
}

// Never destroyed: the application may call OpenCL after its static destructors have run.
Registry &registry() {
  static Registry *r = new Registry;
  return *r;
}

void Registry::add(Object *o) {
  std::lock_guard lock(mutex_);
  objects_.emplace(o->number, o);
  handles_.emplace(o, o->kind);
}

void Registry::remove(Object *o) {
  std::lock_guard lock(mutex_);
  objects_.erase(o->number);
  handles_.erase(o);
}

bool Registry::holds(const void *handle, Kind kind) {
  std::lock_guard lock(mutex_);
  auto it = handles_.find(handle);
  return it != handles_.end() && it->second == kind;
}

std::vector<Object *> Registry::all(Kind kind) {
  std::lock_guard lock(mutex_);
  std::vector<Object *> out;
  for (auto &[number, o] : objects_)
    if (kind == Kind::None || o->kind == kind) out.push_back(o);
  return out;
}

}  // namespace ckpt::ocl
