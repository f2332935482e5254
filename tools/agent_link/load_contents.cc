// SPDX-License-Identifier: Apache-2.0
#include "tools/agent_link/load_contents.h"

#include <sys/socket.h>

#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "common/base/shortage.h"
#include "tools/agent_link/device_streams.h"

namespace ckpt::tools {
namespace {

using protocol::Type;

// All cores decompress the image into free slots. A listener thread receives SlotFree messages and
// makes the slots available again.
class ContentsLoader {
 public:
  ContentsLoader(AgentClient &agent, StagingSlots &staging, const storage::ImageReader &image,
                 u32 number)
      : agent_(agent), staging_(staging), image_(image), prefix_(device_stream_prefix(number)) {
    for (u32 slot = StagingSlots::kSlots; slot-- > 0;) free_.push_back(slot);
  }

  Result<> run() {
    zeros_ = agent_.loads_zeros();
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
    u32 region = 0;
    for (const storage::StreamEntry &stream : image_.streams()) {
      if (!stream.name.starts_with(prefix_)) continue;
      CKPT_CHECK(
          send(Type::Region,
               Writer().put(region).str(stream.name.substr(prefix_.size())).put(stream.size)));
      CKPT_CHECK(send_contents(stream, region));
      region++;
    }
    return {};
  }

  // Zeros are stored in no byte, so the device writes them without being sent any.
  Result<> send_contents(const storage::StreamEntry &stream, u32 region) {
    auto send = [this, region](u64 offset, ByteView bytes) {
      return send_chunk(region, offset, bytes);
    };
    if (!zeros_) return image_.for_each_chunk(stream, storage::ImageReader::Order::Any, send);
    CKPT_CHECK(send_zeros(stream, region));
    return image_.for_each_chunk(stream, storage::ImageReader::Order::Any, send, 0,
                                 storage::ImageReader::Zeros::Skip);
  }

  // Neighbouring chunks in one message.
  Result<> send_zeros(const storage::StreamEntry &stream, u32 region) {
    constexpr u64 kMost = u64{1} << 30;
    u64 at = 0, bytes = 0;
    auto flush = [&]() -> Result<> {
      u64 size = std::exchange(bytes, 0);
      return size == 0 ? Result<>() : send(Type::ZerosAt, Writer().put(region).put(at).put(size));
    };
    for (size_t i = 0; i < stream.chunks.size(); ++i) {
      const storage::ChunkEntry &chunk = image_.index().chunks[stream.chunks[i]];
      bool zeros = chunk.codec == storage::Codec::Zero;
      if (!zeros || bytes + chunk.raw_size > kMost) CKPT_CHECK(flush());
      if (!zeros) continue;
      if (bytes == 0) at = stream.starts[i];
      bytes += chunk.raw_size;
    }
    return flush();
  }

  // The image format allows chunks that are larger than a slot.
  Result<> send_chunk(u32 region, u64 offset, ByteView bytes) {
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
  const storage::ImageReader &image_;
  std::string prefix_;
  std::mutex send_mutex_, mutex_;
  std::condition_variable changed_;
  std::vector<u32> free_;
  bool zeros_ = false;  // the agent has zeros written without slots
  bool over_ = false;
  Result<> answer_;
};

}  // namespace

Result<> load_agent(AgentClient &agent, StagingSlots &staging, const storage::ImageReader &image,
                    u32 number) {
  return ContentsLoader(agent, staging, image, number).run();
}

}  // namespace ckpt::tools
