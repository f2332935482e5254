// SPDX-License-Identifier: Apache-2.0
//
// The verbs of the life cycle for CUDA. Contents of cuMemAlloc's memory are ours to save; all else
// that a driver has is kept by its own checkpoint, in the process's memory.
#include "libckpt-cuda/participant.h"

#include <unordered_map>

#include "common/base/log.h"
#include "libckpt-cuda/calls.h"
#include "libckpt-cuda/code.h"
#include "libckpt-cuda/leave.h"
#include "libckpt-cuda/memory.h"
#include "libckpt-cuda/needs.h"
#include "libckpt-cuda/rest.h"
#include "libckpt-cuda/transfer.h"
#include "libckpt-cuda/uses.h"

namespace ckpt::cuda {

std::atomic<bool> g_devices_lost{false};

namespace {

// All of the tool's staging memory, found by one slot of it.
class PinnedStaging {
 public:
  PinnedStaging(u32 slots, u32 slot_bytes) : bytes_(u64{slots} * slot_bytes), slot_(slot_bytes) {}
  void with(CUcontext context, const agent::Slot &slot) {
    if (!pinned_) pinned_.emplace(context, slot.data - u64{slot.index} * slot_, bytes_);
  }

 private:
  u64 bytes_, slot_;
  std::optional<Pinned> pinned_;
};

class Cuda final : public agent::Participant {
 public:
  // What forked() needs is there from now on: a fork during its making would never see it made.
  Cuda() { gate(); }

  const char *name() const override { return "cuda"; }
  // The driver's checkpoint takes its memory from it, so contents have to go somewhere else.
  bool keeps_contents() const override { return false; }
  u64 contents_bytes() const override {
    u64 bytes = 0;
    for (const Contents &c : memory().contents()) bytes += c.bytes;
    return bytes;
  }
  Calls calls() override {
    agent::Gate::Entered e = gate().entered();
    return {e.count, e.last, e.copied};
  }
  bool answers_for(std::string_view path) const override {
    return path == driver().path || is_part_of_driver(path);
  }

  void preflight(std::vector<std::string> &reasons) override {
    if (std::string why = why_not_leave(); !why.empty()) reasons.push_back(std::move(why));
    if (g_devices_lost) reasons.push_back("the CUDA devices of this program are lost");
    reasons_against(reasons);
  }

  void remarks(std::vector<std::string> &all) override {
    if (CodeFacts code = code_facts(); code.heap)
      all.push_back("its kernels use the device's heap, which only the driver can keep: " +
                    code.why);
  }

  Result<> quiesce(std::chrono::steady_clock::time_point deadline) override {
    CKPT_CHECK(come_to_rest(deadline));
    devices_ = visible_devices();
    return {};
  }

  Result<> save(agent::Sink &sink) override {
    PinnedStaging staging(sink.slot_count(), sink.slot_bytes());
    Transfer transfer;
    for (const Contents &c : memory().contents()) {
      CKPT_TRY(u32 region, sink.region(c.region, c.bytes));
      CKPT_CHECK(save_one(c, region, sink, staging, transfer));
    }
    return transfer.drain();
  }

  std::string needs() override { return needs_as_json(devices_); }

  Result<> detach() override {
    away_ = true;
    memory().release_devices();
    return leave();
  }

  Result<> attach_again() override { return return_to({}); }

  Result<> use_devices(std::span<const agent::DevicePair> map) override {
    map_.assign(map.begin(), map.end());
    // From nowhere: from the one device that the program sees.
    for (agent::DevicePair &p : map_)
      if (p.from.empty() && !devices_.empty()) p.from = devices_.front().uuid;
    return {};
  }

  Result<> attach(const std::string &) override { return return_to(std::exchange(map_, {})); }

  Result<> load(agent::Source &source) override {
    std::unordered_map<std::string, Contents> regions;
    for (Contents &c : memory().contents()) regions.emplace(c.region, c);
    PinnedStaging staging(source.slot_count(), source.slot_bytes());
    Transfer transfer;
    agent::Source::Piece piece;
    for (;;) {
      CKPT_TRY(bool more, source.next(piece));
      if (!more) return transfer.drain();
      auto found = regions.find(piece.region);
      if (found == regions.end() || piece.offset > found->second.bytes ||
          piece.bytes > found->second.bytes - piece.offset)
        return fail("the image holds a region {} that this program does not have", piece.region);
      const Contents &c = found->second;
      staging.with(c.context, piece.slot);
      CKPT_CHECK(transfer.to_device(c.context, c.base + piece.offset, piece.slot.data, piece.bytes,
                                    [&source, slot = piece.slot] { return source.release(slot); }));
    }
  }

  void resume() override {
    g_devices_lost = away_;
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
  static Result<> save_one(const Contents &c, u32 region, agent::Sink &sink, PinnedStaging &staging,
                           Transfer &transfer) {
    for (u64 at = 0; at < c.bytes; at += sink.slot_bytes()) {
      u32 bytes = static_cast<u32>(std::min<u64>(sink.slot_bytes(), c.bytes - at));
      CKPT_TRY(agent::Slot slot, sink.acquire());
      staging.with(c.context, slot);
      CKPT_CHECK(transfer.to_host(c.context, slot.data, c.base + at, bytes,
                                  [=, &sink] { return sink.put(region, at, slot, bytes); }));
    }
    return {};
  }

  Result<> return_to(const std::vector<agent::DevicePair> &map) {
    CKPT_CHECK(come_back(map));
    if (Result<> mapped = memory().come_back(); !mapped) {
      // All of it or nothing: what waits for room must not hold what there is.
      devices_ = visible_devices();
      memory().release_devices();
      if (Result<> left = leave(); !left) log::error(left.error());
      return mapped;
    }
    away_ = false;
    return {};
  }

  // libcuda.so.1 stands for others of its package, but not for those of another API.
  static bool is_part_of_driver(std::string_view path) {
    std::string_view file = path.substr(path.rfind('/') + 1);
    if (file.starts_with("libnvidia-opencl")) return false;
    return file.starts_with("libnvidia") || file.starts_with("libcuda.so");
  }

  std::vector<DeviceFacts> devices_;  // as they were when the program came to rest
  std::vector<agent::DevicePair> map_;
  bool away_ = false;
};

}  // namespace

agent::Participant *participant() {
  static Cuda *const kParticipant = new Cuda;
  return kParticipant;
}

agent::Gate &gate() {
  static agent::Gate *const kGate = new agent::Gate;
  return *kGate;
}

}  // namespace ckpt::cuda
