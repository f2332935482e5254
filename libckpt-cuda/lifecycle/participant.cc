// SPDX-License-Identifier: Apache-2.0
//
// The verbs of the life cycle for CUDA. We save the contents of cuMemAlloc's memory; the driver's
// own checkpoint keeps everything else, in the memory of the process.
#include "libckpt-cuda/lifecycle/participant.h"

#include <algorithm>

#include "common/base/log.h"
#include "libckpt-cuda/code/code.h"
#include "libckpt-cuda/entry/driver.h"
#include "libckpt-cuda/entry/jumps.h"
#include "libckpt-cuda/entry/pass.h"
#include "libckpt-cuda/lifecycle/blockers.h"
#include "libckpt-cuda/lifecycle/contents.h"
#include "libckpt-cuda/lifecycle/devices.h"
#include "libckpt-cuda/lifecycle/driver_checkpoint.h"
#include "libckpt-cuda/lifecycle/quiesce.h"
#include "libckpt-cuda/lifecycle/requirements.h"
#include "libckpt-cuda/memory/contexts.h"
#include "libckpt-cuda/memory/memory.h"

namespace ckpt::cuda {
namespace {

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
  u64 contents_bytes() const override { return cuda::contents_bytes(); }
  Calls calls() override {
    agent::Gate::Entered e = gate().entered();
    return {e.count, e.last, e.copied};
  }
  bool answers_for(std::string_view path) const override {
    return path == driver().path || is_part_of_driver(path);
  }

  void preflight(std::vector<std::string> &blockers) override {
    if (std::string why = no_driver_checkpoint(); !why.empty()) blockers.push_back(std::move(why));
    if (g_devices_lost)
      blockers.push_back(
          "the program has lost its CUDA devices: an earlier restore of them failed");
    append_blockers(blockers);
  }

  void remarks(std::vector<std::string> &all) override {
    if (CodeFacts code = code_facts(); code.device_heap)
      all.push_back("its kernels use the device's heap, which only the driver can keep: " +
                    code.reason);
  }

  Result<> quiesce(std::chrono::steady_clock::time_point deadline) override {
    CKPT_CHECK(quiesce_devices(deadline));
    devices_ = visible_devices();
    return {};
  }

  Result<> save(agent::Sink &sink) override { return save_contents(sink); }

  std::string requirements() override { return requirements_as_json(devices_); }

  void devices(std::vector<std::string> &all) override {
    std::vector<ContextInfo> contexts = live_contexts();
    for (const DeviceInfo &d : visible_devices())
      if (std::ranges::any_of(contexts, [&](const ContextInfo &c) { return c.device == d.number; }))
        all.push_back(d.name);
  }

  Result<> detach() override {
    detached_ = true;
    memory().unmap_all();
    return driver_checkpoint();
  }

  Result<> attach_again() override { return attach_to({}); }

  Result<> use_devices(std::span<const agent::DevicePair> map) override {
    map_.assign(map.begin(), map.end());
    // The Manager names only the new device: the program then sees one device, the old one.
    for (agent::DevicePair &p : map_)
      if (p.from.empty() && !devices_.empty()) p.from = devices_.front().uuid;
    return {};
  }

  Result<> attach(const std::string &) override { return attach_to(std::exchange(map_, {})); }

  Result<> load(agent::Source &source) override { return load_contents(source); }

  void resume() override {
    g_devices_lost = detached_;
    if (detached_) lose();
    gate().open();
  }

  bool exclude(const void *handle) override {
    return memory().exclude(reinterpret_cast<u64>(handle), true);
  }
  bool include(const void *handle) override {
    return memory().exclude(reinterpret_cast<u64>(handle), false);
  }

  void forked() override { gate().forget(); }

 private:
  Result<> attach_to(const std::vector<agent::DevicePair> &map) {
    CKPT_CHECK(driver_restore(map));
    if (Result<> mapped = memory().remap_all(); !mapped) {
      // A program that waits for room on a device must not hold a part of it.
      devices_ = visible_devices();
      memory().unmap_all();
      if (Result<> r = driver_checkpoint(); !r) log::error(r.error());
      return mapped;
    }
    detached_ = false;
    return {};
  }

  // Calls that came while the driver was checkpointed wait inside it, and return only when it runs
  // again. It has no memory then, and no later call reaches it.
  void lose() {
    lose_targets();
    if (Result<> r = driver_restore({}); !r)
      log::warn("calls that wait in the driver will not return: {}", r.error().what);
  }

  std::vector<DeviceInfo> devices_;  // as of the last quiesce(), or of an attach() that failed
  std::vector<agent::DevicePair> map_;
  bool detached_ = false;
};

}  // namespace

agent::Participant *participant() {
  static Cuda *const kParticipant = new Cuda;
  return kParticipant;
}

}  // namespace ckpt::cuda
