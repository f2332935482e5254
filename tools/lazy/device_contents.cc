// SPDX-License-Identifier: Apache-2.0
#include "tools/lazy/device_contents.h"

#include <sys/socket.h>

#include <algorithm>
#include <chrono>

#include "agent/protocol.h"
#include "common/base/shortage.h"
#include "common/base/test_points.h"

namespace ckpt::tools {

using protocol::Type;

namespace {

constexpr size_t kMaxMessage = 64u << 10;

}  // namespace

DeviceContents::~DeviceContents() {
  stop();
  if (socket_) ::shutdown(socket_.get(), SHUT_RDWR);
  for (std::thread &t : threads_) t.join();
}

bool DeviceContents::can_send(const storage::ImageReader &image,
                              const storage::StreamEntry &stream) {
  return std::ranges::all_of(stream.chunks, [&](u32 chunk) {
    return image.index().chunks[chunk].raw_size <= StagingSlots::kSlotBytes;
  });
}

Result<> DeviceContents::start(UniqueFd socket, std::vector<const storage::StreamEntry *> streams,
                               unsigned threads) {
  socket_ = std::move(socket);
  CKPT_TRY(StagingSlots staging, StagingSlots::create());
  staging_.emplace(std::move(staging));
  for (const storage::StreamEntry *stream : streams) {
    regions_.push_back({stream});
    arrival_.owed += stream->size;
  }
  for (u32 slot = StagingSlots::kSlots; slot-- > 0;) free_.push_back(slot);
  in_slots_.resize(StagingSlots::kSlots);
  int fd = staging_->fd();
  CKPT_CHECK(send_message(socket_.get(), static_cast<u16>(Type::Load),
                          Writer().put(StagingSlots::kSlots).put(StagingSlots::kSlotBytes).bytes(),
                          std::span(&fd, 1)));
  for (unsigned i = 0; i <= threads; i++) {
    CKPT_TRY(std::thread thread, start_thread([this, i] { i == 0 ? listen() : work(); }));
    threads_.push_back(std::move(thread));
  }
  return {};
}

void DeviceContents::load_rest() {
  std::lock_guard lock(mutex_);
  rest_ = true;
  changed_.notify_all();
}

void DeviceContents::wait(const std::function<void()> &waits) {
  using namespace std::chrono_literals;
  Lock lock(mutex_);
  while (!changed_.wait_for(lock, 100ms, [this] { return over_; })) {
    lock.unlock();
    waits();
    lock.lock();
  }
}

void DeviceContents::work() {
  Lock lock(mutex_);
  for (;;) {
    std::optional<Piece> piece;
    changed_.wait(lock, [&] { return over_ || (!free_.empty() && (piece = next_piece())); });
    if (over_) return;
    u32 slot = free_.back();
    free_.pop_back();
    in_slots_[slot] = *piece;
    lock.unlock();
    Result<> sent = guarded([&] { return send(*piece, slot); });
    if (!sent) fail_with(std::move(sent).error());
    lock.lock();
    if (!rest_ || std::exchange(loads_, true)) continue;
    lock.unlock();
    test_point("contents-arrive");
    lock.lock();
  }
}

std::optional<DeviceContents::Piece> DeviceContents::next_piece() {
  while (!wanted_.empty() && !regions_[wanted_.front()].has_next()) wanted_.pop_front();
  if (!wanted_.empty()) return take_piece(wanted_.front());
  if (!rest_) return std::nullopt;
  while (next_region_ < regions_.size() && !regions_[next_region_].has_next()) next_region_++;
  if (next_region_ == regions_.size()) return std::nullopt;
  return take_piece(static_cast<u32>(next_region_));
}

DeviceContents::Piece DeviceContents::take_piece(u32 region) {
  Region &r = regions_[region];
  size_t chunk = r.next++;
  return {region, chunk, image_.index().chunks[r.stream->chunks[chunk]].raw_size};
}

Result<> DeviceContents::send(const Piece &p, u32 slot) {
  const storage::StreamEntry &stream = *regions_[p.region].stream;
  CKPT_CHECK(image_.read_chunk(stream.chunks[p.chunk], staging_->slot(slot).first(p.bytes)));
  std::lock_guard lock(send_mutex_);
  // If the other side has hung up, the listening thread sees it.
  (void)send_message(
      socket_.get(), static_cast<u16>(Type::SlotFull),
      Writer().put(slot).put(p.region).put(u64{stream.starts[p.chunk]}).put(p.bytes).bytes());
  return {};
}

void DeviceContents::listen() {
  for (;;) {
    Result<std::optional<Message>> m =
        guarded([this] { return receive_message(socket_.get(), kMaxMessage); });
    Result<> taken = m && *m ? take(**m) : Result<>{};
    if (!taken) fail_with(std::move(taken).error());
    Lock lock(mutex_);
    if (!m || !*m || all_over()) break;
  }
  ::shutdown(socket_.get(), SHUT_RDWR);
  end();
}

Result<> DeviceContents::take(const Message &m) {
  Reader in = m.reader();
  if (static_cast<Type>(m.type) == Type::Failed) return fail("{}", in.str());
  u32 number = in.get<u32>();
  if (!in.done()) return fail("a process with devices has sent a malformed message");
  std::lock_guard lock(mutex_);
  changed_.notify_all();
  switch (static_cast<Type>(m.type)) {
    case Type::SlotFree: return slot_is_free(number);
    case Type::ArrivalWanted: return wanted(number);
    case Type::ArrivalDropped: return dropped(number);
    default: return fail("a process with devices has sent message {}", m.type);
  }
}

Result<> DeviceContents::slot_is_free(u32 slot) {
  if (slot >= in_slots_.size() || !in_slots_[slot])
    return fail("a process with devices has released slot {}, which it does not have", slot);
  Piece piece = *std::exchange(in_slots_[slot], std::nullopt);
  free_.push_back(slot);
  Region &r = regions_[piece.region];
  if (r.dropped) return {};
  r.arrived += piece.bytes;
  arrival_.arrived += piece.bytes;
  if (r.waited_for && r.over() && arrival_.at_first == 0)
    arrival_.at_first = arrival_.arrived.load();
  return {};
}

Result<> DeviceContents::wanted(u32 region) {
  if (region >= regions_.size())
    return fail("a process with devices has asked for region {}, which it has not taken", region);
  regions_[region].waited_for = true;
  wanted_.push_back(region);
  return {};
}

Result<> DeviceContents::dropped(u32 region) {
  if (region >= regions_.size())
    return fail("a process with devices has dropped region {}, which it has not taken", region);
  Region &r = regions_[region];
  if (!std::exchange(r.dropped, true)) arrival_.owed -= r.stream->size - r.arrived;
  return {};
}

bool DeviceContents::all_over() const {
  return std::ranges::all_of(regions_, [](const Region &r) { return r.over(); });
}

// The socket stays open until the program has ended: it waits until then.
void DeviceContents::fail_with(Error why) {
  std::lock_guard once(fail_mutex_);
  {
    std::lock_guard lock(mutex_);
    if (over_) return;
  }
  failed_(std::move(why));  // before wait() returns
  std::lock_guard lock(mutex_);
  over_ = true;
  changed_.notify_all();
}

void DeviceContents::stop() {
  std::lock_guard once(fail_mutex_);
  std::lock_guard lock(mutex_);
  over_ = true;
  changed_.notify_all();
}

// What was not sent is not owed any more: the process that would need it has ended.
void DeviceContents::end() {
  std::lock_guard lock(mutex_);
  for (u32 i = 0; i < regions_.size(); i++) (void)dropped(i);
  over_ = true;
  changed_.notify_all();
}

}  // namespace ckpt::tools
