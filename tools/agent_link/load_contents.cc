// SPDX-License-Identifier: Apache-2.0
#include "tools/agent_link/load_contents.h"

#include <sys/socket.h>

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "common/base/cores.h"
#include "common/base/parallel.h"
#include "common/base/shortage.h"

namespace ckpt::tools {
namespace {

using protocol::Type;

// All cores send units of the plan. A listener thread receives SlotFree messages and makes the
// slots available again.
class ContentsLoader {
 public:
  ContentsLoader(AgentClient &agent, StagingSlots &staging, ContentsAhead &ahead,
                 const std::vector<bool> &later)
      : agent_(agent), staging_(staging), ahead_(ahead), plan_(ahead.plan()), later_(later) {
    for (u32 slot = StagingSlots::kSlots; slot-- > 0;) free_.push_back(slot);
  }

  Result<> run() {
    zeros_ = agent_.loads_zeros();
    ahead_.close(std::getenv("CKPT_TEST_AHEAD") != nullptr);
    allocated_ = ahead_.allocated();
    if (ahead_.bytes() > 0) direct_ = agent_.loads_from(ahead_.file(), plan_.file_bytes()) + "/";
    CKPT_CHECK(agent_.begin_load(staging_));
    CKPT_TRY(std::thread listener, start_thread([this] { listen(); }));
    Result<> sent = send_all();
    if (sent) sent = send(Type::LoadEnd, {});
    if (!sent) ::shutdown(agent_.fd(), SHUT_RDWR);  // ends the listener, which waits for an answer
    listener.join();
    return answer_ ? sent : answer_;
  }

 private:
  Result<> send(Type type, const Writer &body) {
    std::lock_guard lock(send_mutex_);
    return agent_.send(type, body);
  }

  Result<> send_all() {
    for (u32 i = 0; i < plan_.regions.size(); ++i)
      if (!comes_later(i))
        CKPT_CHECK(send(Type::Region,
                        Writer().put(i).str(plan_.regions[i].name).put(plan_.regions[i].bytes)));
    CKPT_CHECK(
        send_each(plan_.zeros.size(), [this](size_t i) { return send_zeros(plan_.zeros[i]); }));
    return send_each(plan_.units.size(), [this](size_t i) { return send_unit(i); });
  }

  bool comes_later(u32 region) const { return region < later_.size() && later_[region]; }

  // Stops at the first error.
  template <class F>
  Result<> send_each(size_t count, F send_one) {
    std::atomic<size_t> next = 0;
    Result<> all;
    run_parallel(static_cast<unsigned>(std::clamp<size_t>(count, 1, usable_cores())),
                 [&](unsigned) {
                   for (size_t i; (i = next++) < count;) {
                     Result<> sent = guarded([&] { return send_one(i); });
                     if (sent) continue;
                     std::lock_guard lock(mutex_);
                     if (all) all = std::move(sent);
                     next = count;
                   }
                 });
    return all;
  }

  // Zeros are stored in no byte, so the device writes them without being sent any, if it can.
  Result<> send_zeros(const ContentsPlan::Zeros &z) {
    if (comes_later(z.region)) return {};
    if (zeros_) return send(Type::ZerosAt, Writer().put(z.region).put(z.offset).put(z.bytes));
    static constinit std::array<std::byte, StagingSlots::kSlotBytes> zeros{};  // not const: in .bss
    for (u64 at = 0; at < z.bytes; at += zeros.size())
      CKPT_CHECK(send_bytes(z.region, z.offset + at,
                            ByteView(zeros).first(std::min<u64>(zeros.size(), z.bytes - at))));
    return {};
  }

  Result<> send_unit(size_t number) {
    if (!ahead_.has(number)) return decompress_and_send(number);
    for (const ContentsPlan::Run &run : plan_.units[number].runs)
      if (!comes_later(run.region))
        CKPT_CHECK(is_direct(run) ? send_place(run)
                                  : send_bytes(run.region, run.offset, ahead_.contents(run)));
    return {};
  }

  bool is_direct(const ContentsPlan::Run &run) const {
    return direct_.size() > 1 && plan_.regions[run.region].name.starts_with(direct_);
  }

  Result<> send_place(const ContentsPlan::Run &run) {
    return send(
        Type::ContentsIn,
        Writer().put(run.region).put(run.offset).put(run.bytes).put(run.at).put(allocated_));
  }

  // The parts of a run follow each other, and so do its bytes in the region.
  Result<> decompress_and_send(size_t number) {
    const ContentsPlan::Unit &unit = plan_.units[number];
    thread_local Bytes raw(storage::kMaxChunkBytes);  // its pages are allocated once
    auto part = unit.parts.begin();
    for (const ContentsPlan::Run &run : unit.runs)
      for (u64 at = 0; at < run.bytes; at += part++->bytes) {
        if (comes_later(run.region)) continue;
        std::span<std::byte> bytes = std::span(raw).first(part->bytes);
        CKPT_CHECK(ahead_.image().read_chunk(part->chunk, bytes));
        CKPT_CHECK(send_bytes(run.region, run.offset + at, bytes));
      }
    return {};
  }

  Result<> send_bytes(u32 region, u64 offset, ByteView bytes) {
    while (!bytes.empty()) {
      ByteView piece = bytes.first(std::min<size_t>(bytes.size(), StagingSlots::kSlotBytes));
      CKPT_TRY(u32 slot, take_slot());
      std::memcpy(staging_.slot(slot).data(), piece.data(), piece.size());
      CKPT_CHECK(send(Type::SlotFull, Writer().put(slot).put(region).put(offset).put(
                                          static_cast<u32>(piece.size()))));
      offset += piece.size();
      bytes = bytes.subspan(piece.size());
    }
    return {};
  }

  Result<u32> take_slot() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !free_.empty() || over_; });
    if (over_) return fail("the agent stopped loading before all contents were sent");
    u32 slot = free_.back();
    free_.pop_back();
    return slot;
  }

  // Runs until the agent answers LoadEnd, or fails.
  void listen() {
    for (;;) {
      Result<Message> m = guarded([this] { return agent_.receive(); });
      std::lock_guard lock(mutex_);
      u32 slot = m ? m->reader().get<u32>() : 0;
      if (m && static_cast<Type>(m->type) == Type::SlotFree && slot < StagingSlots::kSlots) {
        free_.push_back(slot);
        changed_.notify_one();
        continue;
      }
      if (!m) answer_ = Failure(m.error());
      over_ = true;
      changed_.notify_all();
      return;
    }
  }

  AgentClient &agent_;
  StagingSlots &staging_;
  ContentsAhead &ahead_;
  const ContentsPlan &plan_;
  const std::vector<bool> &later_;  // by region; shorter: false
  std::string direct_;  // the start of the names of regions that the agent loads from the file
  std::mutex send_mutex_, mutex_;
  std::condition_variable changed_;
  std::vector<u32> free_;
  u64 allocated_ = 0;   // bytes from the beginning of the file
  bool zeros_ = false;  // the agent has zeros written without slots
  bool over_ = false;
  Result<> answer_;
};

}  // namespace

Result<> load_agent(AgentClient &agent, StagingSlots &staging, ContentsAhead &ahead,
                    const std::vector<bool> &later) {
  return ContentsLoader(agent, staging, ahead, later).run();
}

}  // namespace ckpt::tools
