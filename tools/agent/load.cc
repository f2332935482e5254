// SPDX-License-Identifier: Apache-2.0
#include <sys/socket.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "tools/agent/transfer.h"

namespace ckpt::tools {
namespace {

using protocol::Type;

// Fills free slots from the image with all cores, while one thread hears which slots are free
// again.
class Loading {
 public:
  Loading(AgentClient &agent, Staging &staging, const storage::ImageReader &image, u32 number)
      : agent_(agent), staging_(staging), image_(image), prefix_(device_stream_prefix(number)) {
    for (u32 slot = Staging::kSlots; slot-- > 0;) free_.push_back(slot);
  }

  Result<> run() {
    CKPT_CHECK(agent_.begin_load(staging_));
    std::thread listener([this] { listen(); });
    Result<> sent = send_all();
    if (sent) sent = send(Type::LoadEnd, {});
    if (!sent) ::shutdown(agent_.fd(), SHUT_RDWR);  // the listener need not wait for an answer
    listener.join();
    return answer_ ? sent : answer_;
  }

 private:
  Result<> send(Type type, const Writer &body) {
    std::lock_guard lock(send_mutex_);
    return agent_.send(type, body);
  }

  Result<> send_all() {
    u32 region = 0;
    for (const storage::StreamEntry &stream : image_.streams()) {
      if (!stream.name.starts_with(prefix_)) continue;
      CKPT_CHECK(
          send(Type::Region,
               Writer().put(region).str(stream.name.substr(prefix_.size())).put(stream.size)));
      CKPT_CHECK(image_.for_each_chunk(
          stream, storage::ImageReader::Order::Any,
          [&, region](u64 offset, ByteView bytes) { return send_chunk(region, offset, bytes); }));
      region++;
    }
    return {};
  }

  // An image's chunk may be larger than a slot, never smaller unless it ends the stream.
  Result<> send_chunk(u32 region, u64 offset, ByteView bytes) {
    while (!bytes.empty()) {
      ByteView piece = bytes.first(std::min<size_t>(bytes.size(), Staging::kSlotBytes));
      CKPT_TRY(u32 slot, take());
      std::memcpy(staging_.slot(slot).data(), piece.data(), piece.size());
      CKPT_CHECK(send(Type::SlotFull, Writer().put(slot).put(region).put(offset).put(
                                          static_cast<u32>(piece.size()))));
      offset += piece.size();
      bytes = bytes.subspan(piece.size());
    }
    return {};
  }

  Result<u32> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !free_.empty() || over_; });
    if (over_) return fail("the agent stopped loading");
    u32 slot = free_.back();
    free_.pop_back();
    return slot;
  }

  // Until LoadEnd is answered, or the agent fails.
  void listen() {
    for (;;) {
      Result<Message> m = agent_.receive();
      std::lock_guard lock(mutex_);
      u32 slot = m ? m->reader().get<u32>() : 0;
      if (m && static_cast<Type>(m->type) == Type::SlotFree && slot < Staging::kSlots) {
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
  Staging &staging_;
  const storage::ImageReader &image_;
  std::string prefix_;
  std::mutex send_mutex_, mutex_;
  std::condition_variable changed_;
  std::vector<u32> free_;
  bool over_ = false;
  Result<> answer_;
};

}  // namespace

Result<> load_agent(AgentClient &agent, Staging &staging, const storage::ImageReader &image,
                    u32 number) {
  return Loading(agent, staging, image, number).run();
}

}  // namespace ckpt::tools
