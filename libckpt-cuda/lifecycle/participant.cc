// SPDX-License-Identifier: Apache-2.0
//
// The verbs of the life cycle for CUDA. We save the contents of the memory that we serve
// (served.h); the driver's own checkpoint keeps everything else, in the memory of the process.
#include "libckpt-cuda/lifecycle/participant.h"

#include <algorithm>
#include <atomic>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "driver-checkpoint/driver_checkpoint.h"
#include "driver-checkpoint/forked_child.h"
#include "libckpt-cuda/code/code.h"
#include "libckpt-cuda/devices/node_gpus.h"
#include "libckpt-cuda/devices/outside_gpus.h"
#include "libckpt-cuda/entry/driver.h"
#include "libckpt-cuda/entry/held_calls.h"
#include "libckpt-cuda/entry/newer_entries.h"
#include "libckpt-cuda/entry/pass.h"
#include "libckpt-cuda/events/interprocess_events.h"
#include "libckpt-cuda/lifecycle/blockers.h"
#include "libckpt-cuda/lifecycle/contents.h"
#include "libckpt-cuda/lifecycle/devices.h"
#include "libckpt-cuda/lifecycle/late_memory.h"
#include "libckpt-cuda/lifecycle/quiesce.h"
#include "libckpt-cuda/lifecycle/requirements.h"
#include "libckpt-cuda/lifecycle/transfer.h"
#include "libckpt-cuda/memory/contexts.h"
#include "libckpt-cuda/memory/copier.h"
#include "libckpt-cuda/memory/host_memory.h"
#include "libckpt-cuda/memory/ipc_memory.h"
#include "libckpt-cuda/memory/memory.h"
#include "libckpt-cuda/memory/owned_memory.h"
#include "libckpt-cuda/memory/paired_memory.h"
#include "libckpt-cuda/memory/pools.h"
#include "libckpt-cuda/memory/served.h"

namespace ckpt::cuda {
namespace {

// Calls that are inside the driver while its devices are idle take microseconds; a loaded machine
// may take longer.
constexpr std::chrono::seconds kCallLimit{10};

// libcuda.so.1 answers for the other files of the driver's package, except those of another API.
bool is_part_of_driver(std::string_view path) {
  std::string_view file = path.substr(path.rfind('/') + 1);
  if (file.starts_with("libnvidia-opencl")) return false;
  return file.starts_with("libnvidia") || file.starts_with("libcuda.so");
}

class Cuda final : public agent::Participant {
 public:
  // forked() uses the gate. If another thread were creating it during the fork, the child would
  // wait for a thread that it does not have; so it is created here.
  Cuda() { gate(); }

  const char *name() const override { return "cuda"; }
  // detach() gives the physical memory back, and the contents with it.
  bool keeps_contents() const override { return false; }
  bool has_contents() const override { return owned_.has_contents(); }
  Result<bool> start_owner() override { return owned_.start(); }
  void drop_ahead() override { owned_.end_unused(); }
  u64 contents_bytes() const override { return cuda::contents_bytes(); }
  bool looks() const override { return true; }
  bool loads_zeros() const override { return true; }
  bool loads_places() const override { return true; }
  void lock_pages(std::span<std::byte> memory) override {
    if (std::vector<ContextInfo> all = live_contexts(); !all.empty())
      cuda::lock_pages(all.front().handle, memory.data(), memory.size());
  }
  void unlock_pages(std::span<std::byte> memory) override {
    if (std::vector<ContextInfo> all = live_contexts(); !all.empty())
      cuda::unlock_pages(all.front().handle, memory.data());
  }
  Calls calls() override {
    agent::Gate::Entered e = gate().entered();
    return {e.count, e.last, e.copied};
  }
  bool answers_for(std::string_view path) const override {
    return path == driver().path || is_part_of_driver(path);
  }

  void preflight(std::vector<std::string> &blockers) override {
    if (std::string why = no_driver_checkpoint(); !why.empty()) blockers.push_back(std::move(why));
    if (g_refusal != CUDA_SUCCESS)
      blockers.push_back(
          "the program has lost its CUDA devices: an earlier restore of them failed");
    append_blockers(blockers);
  }

  void remarks(std::vector<std::string> &all) override {
    if (CodeFacts code = code_facts(); code.device_heap)
      all.push_back("its kernels use the device's heap, which only the driver can keep: " +
                    code.reason);
  }

  Result<> quiesce(Clock::time_point deadline) override {
    if (!late_.wait_until(deadline))
      return fail_with_hint("memory of another process has not come back from a checkpoint yet",
                            "try again when all processes of the program run");
    outside_.start();
    CKPT_CHECK(quiesce_devices(deadline));
    forget_copier();
    CKPT_CHECK(paired_memory().settle());
    // What the program did between the preflight and the closing of the gate.
    std::vector<std::string> late;
    append_blockers(late);
    if (!late.empty()) return fail("{}", late.front());
    devices_ = read_devices_again();
    return {};
  }

  Result<> save(agent::Sink &sink) override { return save_contents(sink, owned_); }

  // What is still on a device needs no room there.
  std::string requirements() override {
    Devices needed = devices_;
    if (on_devices_)
      for (DeviceInfo &d : needed.visible) d.driver_bytes = 0;
    return requirements_as_json(needed);
  }

  // The driver's share is that of the last checkpoint.
  Result<std::string> requirements_now() override {
    Devices now = read_devices();
    now.gpus = gpus_in_files();
    for (DeviceInfo &d : now.visible) {
      auto was = std::ranges::find(devices_.visible, d.uuid, &DeviceInfo::uuid);
      if (was != devices_.visible.end()) d.driver_bytes = was->driver_bytes;
    }
    return requirements_as_json(now);
  }

  void devices(std::vector<std::string> &all) override {
    std::vector<ContextInfo> contexts = live_contexts();
    for (const DeviceInfo &d : visible_devices())
      if (std::ranges::any_of(contexts, [&](const ContextInfo &c) { return c.device == d.number; }))
        all.push_back(d.name);
  }

  // From here on every call waits. No kernel runs, so those inside end soon.
  Result<> lock() override {
    CKPT_CHECK(hold_calls());
    CKPT_CHECK(owned_.leave());
    CKPT_CHECK(interprocess_events().leave());
    CKPT_CHECK(unmap_served_memory());
    outside_.start();
    locked_ = true;
    return driver_lock();
  }

  Result<> detach() override {
    if (!locked_) CKPT_CHECK(lock());
    locked_ = false;
    Result<> left = leave_driver();
    outside_.end();
    if (left) on_devices_ = false;
    return left;
  }

  // The driver runs, but a call that looks at memory would find none, so every call waits.
  Result<> release_memory() override {
    CKPT_CHECK(hold_calls());
    CKPT_CHECK(unmap_served_memory());
    outside_.end();
    on_devices_ = true;
    return {};
  }
  bool on_devices() const override { return on_devices_; }
  void undo_lock() override {
    locked_ = false;
    outside_.end();
    if (Result<> r = driver_restore({}); !r) log::error(r.error());
  }

  Result<> attach_again() override {
    Result<> attached = attach_to({});
    if (!attached) owned_.abandon();
    return attached;
  }

  Result<> use_devices(std::span<const agent::DevicePair> map) override {
    DeviceMap wanted;
    // The Manager names only the new device: the program then sees one device, the old one.
    for (const agent::DevicePair &p : map)
      wanted.emplace_back(p.from.empty() ? first_device() : p.from, p.to);
    map_.clear();
    CKPT_TRY(DeviceMap whole, complete_map(wanted, devices_.gpus, all_gpus(outside_)));
    unsuited_ = reason_against_map(whole, devices_.driver_version);
    if (!unsuited_.empty()) return fail("{}", unsuited_);
    map_ = std::move(whole);
    return {};
  }
  std::string unsuited() const override { return unsuited_; }
  bool lost() const override { return driver_lost(); }

  Result<> attach(const std::string &) override {
    owned_.forget();
    return attach_to(std::exchange(map_, {}));
  }

  Result<> load(agent::Source &source) override { return load_contents(source); }

  void resume() override {
    if (!late_.wait_until(Clock::now())) return;  // a quiesce() that has failed
    bool lost = detached_ || missing_;
    g_refusal = lost ? CUDA_ERROR_DEVICE_UNAVAILABLE : CUDA_SUCCESS;
    if (detached_) lose();
    locked_ = on_devices_ = false;
    outside_.end();
    owned_.end();
    if (!lost) ipc_memory().loaded();
    if (lost || !ipc_memory().is_late()) return open();
    Result<> started = late_.start([this](const Result<> &came) { late_memory_came(came); });
    if (!started) late_memory_came(started);
  }

  bool others_need() override { return ipc_memory().owns_any(); }

  bool exclude(const void *handle) override { return exclude(reinterpret_cast<u64>(handle), true); }
  bool include(const void *handle) override {
    return exclude(reinterpret_cast<u64>(handle), false);
  }

  void before_fork() override { note_before_fork(has_host_memory); }

  // A parent that is suspended has a driver that would keep the child waiting for ever.
  void forked() override {
    g_refusal = CUDA_ERROR_NOT_INITIALIZED;
    gate().forget();
    HeldCalls::forget();
    forget_newer_entries();
    outside_.end();
    owned_.close_in_child();
    forget_copier();
    mend_forked_child();
  }

 private:
  std::string first_device() const {
    return devices_.visible.empty() ? std::string() : devices_.visible.front().uuid;
  }

  static bool exclude(u64 address, bool excluded) {
    return memory().exclude(address, excluded) || paired_blocks().exclude(address, excluded) ||
           pools().exclude(address, excluded);
  }

  Result<> hold_calls() {
    detached_ = true;
    if (HeldCalls::close(Clock::now() + kCallLimit)) return {};
    return fail_with_hint("a CUDA call has not returned, although the devices are idle",
                          "try again");
  }

  // The driver is locked and has no memory of ours. What becomes free is its share, but not while
  // an owner releases its copies.
  Result<> leave_driver() {
    std::vector<GpuMemory> before = outside_.ask();
    CKPT_CHECK(driver_checkpoint());
    if (!owned_.has_left()) note_driver_bytes(devices_.visible, before, outside_.ask());
    return {};
  }

  Result<> attach_to(const DeviceMap &map) {
    unsuited_.clear();
    locked_ = false;
    Result<> attached = take_devices(map);
    outside_.end();
    return attached;
  }

  // The driver moves only what it has checkpointed.
  Result<> take_devices(const DeviceMap &map) {
    if (on_devices_ && !map.empty()) CKPT_CHECK(detach());
    CKPT_CHECK(check_room(map));
    CKPT_CHECK(restore_driver(map));
    Result<> attached = check_moved(devices_.visible, map);
    if (!attached) unsuited_ = attached.error().what;
    if (attached) owned_.take_back();
    if (attached) attached = remap_served_memory();
    if (attached) attached = interprocess_events().arrive();
    if (!attached) {
      leave_again();
      return attached;
    }
    detached_ = on_devices_ = false;
    if (!map.empty()) warn_of_stale_bus_ids(outside_.ask());
    return {};
  }

  Result<> restore_driver(const DeviceMap &map) {
    OpensDevices opens;
    return driver_restore(map);
  }

  // The driver's Restore must not run out of memory, because that can be final. Where it is not
  // checkpointed, it still has its share.
  Result<> check_room(const DeviceMap &map) {
    auto has_share = [](const DeviceInfo &d) { return d.driver_bytes > 0; };
    if (!std::ranges::any_of(devices_.visible, has_share) || !driver_is_checkpointed()) return {};
    return devices_have_room(devices_.visible, map, outside_.ask(),
                             owned_.has_left() ? Served::WithOwner : Served::Released);
  }

  // What the driver does not tell is kept: its share as of the last checkpoint.
  Devices read_devices_again() {
    Devices now = read_devices();
    now.gpus = all_gpus(outside_);
    std::vector<ContextInfo> contexts = live_contexts();
    for (DeviceInfo &d : now.visible) {
      d.used =
          std::ranges::any_of(contexts, [&](const ContextInfo &c) { return c.device == d.number; });
      auto was = std::ranges::find(devices_.visible, d.uuid, &DeviceInfo::uuid);
      if (was != devices_.visible.end()) d.driver_bytes = was->driver_bytes;
    }
    return now;
  }

  // A program that waits for room on a device must not hold a part of it, or no more than before.
  void leave_again() {
    devices_ = read_devices_again();
    Result<> left = unmap_served_memory();
    if (left && !on_devices_) left = driver_lock();
    if (left && !on_devices_) left = leave_driver();
    if (!left) log::error(left.error());
  }

  static void open() {
    HeldCalls::open();
    gate().open();
  }

  // In a thread of its own.
  void late_memory_came(const Result<> &came) {
    if (!came) {
      Error why = came.error();
      log::error(std::move(why).in("memory of another process does not come back"));
      missing_ = true;
      g_refusal = CUDA_ERROR_DEVICE_UNAVAILABLE;
      lose_calls();
    }
    open();
  }

  static void lose_calls() {
    ipc_memory().give_up();
    paired_memory().show_pages();
    lose_held_calls();
    lose_newer_entries();
  }

  // Calls that came while the driver was checkpointed wait inside it, and return only when it runs
  // again. It has no memory then, and no later call reaches it.
  void lose() {
    lose_calls();
    if (Result<> r = driver_restore({}); !r)
      log::warn("calls that wait in the driver will not return: {}", r.error().what);
  }

  Devices devices_;  // as of the last quiesce(), or of an attach() that failed
  DeviceMap map_;
  std::string unsuited_;  // why the devices of the last use_devices() can never be its own
  bool detached_ = false;
  bool locked_ = false;      // lock() has been called, and detach() comes next
  bool on_devices_ = false;  // release_memory() has been called, and nothing else
  OutsideGpus outside_;
  OwnedMemory owned_;
  LateMemory late_;
  std::atomic<bool> missing_{false};  // memory of another process has not come back
};

}  // namespace

agent::Participant *participant() {
  static Cuda *const kParticipant = new Cuda;
  return kParticipant;
}

}  // namespace ckpt::cuda
