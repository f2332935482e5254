// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <mutex>
#include <set>
#include <unordered_map>
#include <utility>

#include "ring/table.h"

namespace ckpt::ocl {

// The proxy's side of the codec: the driver's handles by the client's numbers. Numbers are unique
// over all kinds. Thread-safe, because drivers report completions on threads of their own.
class Objects {
 public:
  // Called whenever a memory object is looked up, that is, before a command can use it. Set once.
  std::function<void(u64 number)> before_use;

  void put(Kind kind, u64 number, void *handle) {
    std::lock_guard lock(mutex_);
    all_[number] = {kind, handle};
  }
  // nullptr if there is no such object, or if it is of another kind.
  void *object(u8 kind, u64 number) const {
    if (before_use && static_cast<Kind>(kind) == Kind::Mem) before_use(number);
    std::lock_guard lock(mutex_);
    auto it = all_.find(number);
    if (it != all_.end() && static_cast<u8>(it->second.kind) == kind) return it->second.handle;
    if (static_cast<Kind>(kind) == Kind::Event && failed_.contains(number)) found_failed_ = true;
    return nullptr;
  }
  template <class H>
  H get(Kind kind, u64 number) const {
    return static_cast<H>(object(static_cast<u8>(kind), number));
  }
  void *take(Kind kind, u64 number) {
    std::lock_guard lock(mutex_);
    auto it = all_.find(number);
    if (it == all_.end() || it->second.kind != kind) return nullptr;
    void *handle = it->second.handle;
    all_.erase(it);
    return handle;
  }

  // The command of an event has ended. If it has failed, commands that still wait for the event
  // fail, too: the client sends them before it learns of the end. The newest are kept.
  void event_ended(u64 number, bool failed) {
    std::lock_guard lock(mutex_);
    all_.erase(number);
    if (!failed) return;
    failed_.insert(number);
    if (failed_.size() > kMostFailed) failed_.erase(failed_.begin());
  }
  // Whether a failed event was looked up since the last call. Only the serving thread looks up
  // events.
  bool found_failed() {
    std::lock_guard lock(mutex_);
    return std::exchange(found_failed_, false);
  }

 private:
  static constexpr size_t kMostFailed = 4096;
  struct Entry {
    Kind kind;
    void *handle;
  };
  mutable std::mutex mutex_;
  std::unordered_map<u64, Entry> all_;
  std::set<u64> failed_;  // numbers of events
  mutable bool found_failed_ = false;
};

// Releases a driver's object.
inline void release_handle(Kind kind, void *handle) {
  if (!handle) return;
  switch (kind) {
    case Kind::Context: ::clReleaseContext(static_cast<cl_context>(handle)); return;
    case Kind::Queue: ::clReleaseCommandQueue(static_cast<cl_command_queue>(handle)); return;
    case Kind::Mem: ::clReleaseMemObject(static_cast<cl_mem>(handle)); return;
    case Kind::Program: ::clReleaseProgram(static_cast<cl_program>(handle)); return;
    case Kind::Kernel: ::clReleaseKernel(static_cast<cl_kernel>(handle)); return;
    case Kind::Event: ::clReleaseEvent(static_cast<cl_event>(handle)); return;
    case Kind::Sampler: ::clReleaseSampler(static_cast<cl_sampler>(handle)); return;
    case Kind::Device: ::clReleaseDevice(static_cast<cl_device_id>(handle)); return;
    case Kind::None:
    case Kind::Platform:
    case Kind::Partition: return;
  }
}

}  // namespace ckpt::ocl
