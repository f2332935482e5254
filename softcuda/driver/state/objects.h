// SPDX-License-Identifier: Apache-2.0
//
// The objects behind the handles of the driver API.
#pragma once

#include <cuda.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "softcuda/broker/shares.h"
#include "softcuda/device/memory.h"
#include "softcuda/device/stream.h"
#include "softcuda/vm/image.h"
#include "softcuda/vm/kernel.h"
#include "softcuda/vm/memory_view.h"

namespace ckpt::softcuda::driver {

struct Context;
struct Capture;
class SharedEvent;

// The live objects of one type. A handle is an address; each is looked up here before it is used,
// since a program may pass an invalid one. Thread-safe.
template <class T>
class Handles {
 public:
  T *add(T *object) {
    std::lock_guard lock(mutex_);
    live_.insert(object);
    return object;
  }
  bool holds(const void *handle) const {
    std::lock_guard lock(mutex_);
    return live_.contains(handle);
  }
  template <class H>
  T *get(H handle) const {
    return holds(handle) ? reinterpret_cast<T *>(handle) : nullptr;
  }
  // True for exactly one of several callers.
  bool remove(const void *handle) {
    std::lock_guard lock(mutex_);
    return live_.erase(handle) > 0;
  }
  std::vector<T *> all() const {
    std::lock_guard lock(mutex_);
    std::vector<T *> list;
    for (const void *p : live_) list.push_back(static_cast<T *>(const_cast<void *>(p)));
    return list;
  }

 private:
  mutable std::mutex mutex_;
  std::unordered_set<const void *> live_;
};

struct Stream {
  Context *context = nullptr;
  std::shared_ptr<WorkQueue> queue = std::make_shared<WorkQueue>();
  unsigned flags = 0;
  int priority = 0;
  u64 id = 0;
  bool legacy = false;
  std::shared_ptr<Capture> capture;  // while it records a graph
  std::map<int, CUlaunchAttributeValue> attributes;
};

// One recording of an event.
struct Record {
  Point point;
  std::atomic<i64> nanoseconds{0};  // event_time() when the point was reached
  // Instead of the point, if other processes use the event.
  std::shared_ptr<SharedEvent> shared;
  u64 ticket = 0;

  bool reached() const;
  void wait() const;
};

struct Event {
  Context *context = nullptr;
  unsigned flags = 0;
  std::mutex mutex;
  std::shared_ptr<Record> record;
  // If it was recorded in a capture: the capture and the nodes before it.
  std::shared_ptr<Capture> capture;
  std::vector<CUgraphNode> captured;
  std::shared_ptr<SharedEvent> shared;      // if other processes use the event
  std::optional<broker::ShareId> share_id;  // if this process exports it

  // These need the lock. The last recording, or nullptr.
  std::shared_ptr<Record> last_record() const;
  // A recording that begins now; set_record() when its point is known.
  std::shared_ptr<Record> new_record() const;
  void set_record(std::shared_ptr<Record> r, Point end);
};

struct Module;

struct Function {
  Module *module = nullptr;
  const vm::Symbol *symbol = nullptr;
  std::once_flag once;
  std::atomic<bool> prepared{false};
  std::unique_ptr<vm::Kernel> kernel;
  std::string decode_error;  // if `kernel` is null
  int max_dynamic_shared = 48 * 1024;
  std::map<int, int> attributes;
};

struct Module {
  Context *context = nullptr;
  std::unique_ptr<vm::Image> image;
  u64 base = 0, managed_base = 0;
  std::map<std::string, std::unique_ptr<Function>, std::less<>> functions;
  struct Library *library = nullptr;
};

// A kernel of a library.
struct Kernel {
  struct Library *library = nullptr;
  std::string name;
};

// Code that is loaded into each context on first use there.
struct Library {
  std::vector<std::string> ptx;
  std::mutex mutex;
  std::map<Context *, Module *> modules;
  std::map<std::string, std::unique_ptr<Kernel>, std::less<>> kernels;
  std::unique_ptr<vm::Image> symbols;  // only for its names: it has no addresses
};

struct Array {
  Context *context = nullptr;
  struct Mipmap *mipmap = nullptr;  // the array is a level of this; null: it is not a level
  CUDA_ARRAY3D_DESCRIPTOR desc{};
  u64 base = 0;
  u64 row_bytes = 0;    // distance between rows
  u64 slice_bytes = 0;  // distance between slices or layers
};

// A mipmapped array. Its levels lie in one allocation.
struct Mipmap {
  Context *context = nullptr;
  CUDA_ARRAY3D_DESCRIPTOR desc{};
  u64 base = 0;
  std::vector<std::unique_ptr<Array>> levels;
};

struct Pool;

struct Device {
  int index = 0;
  std::string name;
  CUuuid uuid{};
  u64 total_bytes = 0;
  Context *primary = nullptr;
  unsigned primary_flags = 0;
  unsigned primary_uses = 0;
  Pool *default_pool = nullptr;
  Pool *pool = nullptr;
};

struct Context : vm::AddressSpace {
  Device *device = nullptr;
  unsigned flags = 0;
  u64 id = 0;
  bool is_primary = false;
  std::atomic<bool> inactive{false};          // a primary context after a reset or the last release
  std::atomic<CUresult> error{CUDA_SUCCESS};  // once set, every call returns it
  std::mutex mutex;  // guards the next five members and the order of submissions
  Stream legacy;
  Point held_behind;
  std::vector<Point> left;  // the ends of streams that were destroyed with work under way
  std::set<Stream *> streams;
  std::set<Module *> modules;
  std::atomic<u32> peers{0};  // kernels may access the memory of these devices, one bit each
  size_t stack_bytes = 1024;
  size_t printf_bytes = 1 << 20;
  size_t heap_bytes = 8 << 20;

  // vm::AddressSpace
  bool find(u64 address, vm::Range &out) const override;
  // What kernels call through GridServices (device_launch.h).
  void print(std::string_view text);
  u64 allocate(u64 bytes);
  bool release(u64 address);

  // Submits work to a stream, after `after` and what the rules of the default stream demand.
  Point submit(Stream &s, std::function<void()> work, std::vector<Point> after = {});
  // The ends of all that was submitted so far.
  std::vector<Point> all_points();
  // Whatever is submitted from now on begins after `point`.
  void hold_behind(Point point);
  // Waits for all streams, then writes what kernels have printed to standard output.
  void synchronize();
  void show_printed();
  // The end of a kernel that was launched, the last one of its stream; and waits for all of them.
  void note_kernel(const Point &end);
  void wait_for_kernels();
  // Makes an inactive context usable again. It has nothing of what it had before.
  void renew();

 private:
  std::mutex print_mutex_;
  std::string printed_;
  std::mutex kernels_mutex_;
  std::map<const WorkQueue *, Point> kernels_;
  std::mutex heap_mutex_;
  u64 heap_base_ = 0;
  Spans heap_free_;
  std::unordered_map<u64, u64> heap_used_;
};

}  // namespace ckpt::softcuda::driver
