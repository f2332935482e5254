// SPDX-License-Identifier: Apache-2.0
#include "agent/transfer/loader.h"

#include <pthread.h>

namespace ckpt::agent {

using protocol::Type;

static_assert(DirectMemory::kPieceBytes == protocol::kFilePieceBytes);

class Loader::Lane : public Source {
 public:
  Lane(Loader &loader, Participant *participant) : loader(loader), participant(participant) {}
  int staging_fd() const override { return loader.staging_.fd(); }
  u32 slot_bytes() const override { return loader.staging_.slot_bytes(); }
  u32 slot_count() const override { return loader.staging_.slots(); }
  Result<bool> next(Piece &piece) override { return loader.next(*this, piece); }
  Result<> release(Slot slot) override { return loader.release(*this, slot); }

  static void *thread(void *self) {
    Lane *lane = static_cast<Lane *>(self);
    lane->loader.run_lane(*lane);
    return nullptr;
  }

  Loader &loader;
  Participant *participant;
  std::deque<Piece> waiting;
  bool closed = false;  // load() has returned
};

Loader::Loader(Channel &tool, Staging &staging, File file)
    : tool_(tool), staging_(staging), file_(file) {}
Loader::~Loader() = default;

// The first participant loads on this thread. The others inherit its signal mask, which blocks all
// signals.
Result<> Loader::run(std::span<Participant *const> participants) {
  for (Participant *p : participants) lanes_.push_back(std::make_unique<Lane>(*this, p));
  std::vector<pthread_t> threads;
  for (size_t i = 1; i < lanes_.size(); i++) {
    pthread_t thread;
    int error = ::pthread_create(&thread, nullptr, Lane::thread, lanes_[i].get());
    if (error == 0) threads.push_back(thread);
    if (error != 0) close(*lanes_[i], fail("cannot start a thread: {}", std::strerror(error)));
  }
  if (!lanes_.empty()) run_lane(*lanes_[0]);
  for (pthread_t thread : threads) ::pthread_join(thread, nullptr);
  return drain();
}

void Loader::run_lane(Lane &lane) { close(lane, lane.participant->load(lane)); }

// Waits for a piece of the file without the mutex.
Result<bool> Loader::next(Lane &lane, Source::Piece &piece) {
  CKPT_TRY(bool more, next_in_turn(lane, piece));
  if (!more || piece.zeros || piece.slot.index != kNoSlot) return more;
  u64 at = static_cast<u64>(piece.slot.data - file_.memory->at(0));
  CKPT_CHECK(ahead_->wait_for(DirectMemory::piece_of(at)));
  return true;
}

Result<bool> Loader::next_in_turn(Lane &lane, Source::Piece &piece) {
  std::unique_lock lock(mutex_);
  while (errors_.empty() && lane.waiting.empty() && !ended_) {
    if (reading_)
      changed_.wait(lock);
    else if (Result<> r = read_one(lock); !r)
      abort(std::move(r).error());
  }
  if (!errors_.empty()) return Failure(errors_.front());
  if (lane.waiting.empty()) return false;
  piece = std::move(lane.waiting.front());
  lane.waiting.pop_front();
  return true;
}

Result<> Loader::release(Lane &lane, Slot slot) {
  if (slot.index == kNoSlot) return {};
  std::scoped_lock lock(mutex_);
  auto it = held_.find(slot.index);
  if (it == held_.end() || it->second != &lane) return fail("slot {} is not held", slot.index);
  return send_free(slot.index);
}

// Returns the slots that this participant has not released, because the others wait for them.
void Loader::close(Lane &lane, Result<> loaded) {
  std::scoped_lock lock(mutex_);
  lane.closed = true;
  if (!loaded) abort(std::move(loaded.error()).in(lane.participant->name()));
  std::vector<u32> left;
  for (auto &[slot, holder] : held_)
    if (holder == &lane) left.push_back(slot);
  for (u32 slot : left)
    if (Result<> r = send_free(slot); !r) abort(std::move(r).error());
  lane.waiting.clear();
}

// All participants have finished; the tool may still send.
Result<> Loader::drain() {
  std::unique_lock lock(mutex_);
  while (errors_.empty() && !ended_)
    if (Result<> r = read_one(lock); !r) abort(std::move(r).error());
  if (!errors_.empty()) return Failure(errors_.front());
  return {};
}

Result<> Loader::read_one(std::unique_lock<std::mutex> &lock) {
  reading_ = true;
  lock.unlock();
  Result<std::optional<Incoming>> message = tool_.receive();
  lock.lock();
  reading_ = false;
  changed_.notify_all();
  if (!message) return Failure(std::move(message).error());
  if (!*message) return fail("the tool hung up");
  return take(**message);
}

Result<> Loader::take(const Incoming &message) {
  switch (message.type) {
    case Type::Region: return take_region(message.reader());
    case Type::SlotFull: return take_slot(message.reader());
    case Type::ZerosAt: return take_zeros(message.reader());
    case Type::ContentsIn: return take_contents(message.reader());
    case Type::LoadEnd: ended_ = true; return {};
    default:
      return fail("unexpected message of type {} during a load", static_cast<u16>(message.type));
  }
}

Result<> Loader::take_region(Reader in) {
  u32 number = in.get<u32>();
  std::string name(in.str());
  u64 bytes = in.get<u64>();
  if (!in.done()) return fail("malformed Region");
  Lane *lane = lane_of(name);
  if (!lane) return fail("the image contains {}, which belongs to no API of this process", name);
  Region region{lane, name.substr(name.find('/') + 1), bytes};
  if (!regions_.emplace(number, std::move(region)).second)
    return fail("region {} was announced twice", number);
  return {};
}

Result<> Loader::take_slot(Reader in) {
  u32 slot = in.get<u32>(), number = in.get<u32>();
  u64 offset = in.get<u64>();
  u32 bytes = in.get<u32>();
  auto it = regions_.find(number);
  if (!in.done() || slot >= staging_.slots() || held_.count(slot) || it == regions_.end())
    return fail("malformed SlotFull: slot {}, region {}", slot, number);
  const Region &region = it->second;
  CKPT_CHECK(staging_.check_piece(offset, bytes, region.bytes));
  bytes_ += bytes;
  held_.emplace(slot, region.lane);
  if (region.lane->closed) return send_free(slot);
  region.lane->waiting.push_back({region.name, offset, staging_.slot(slot), bytes});
  return {};
}

Result<> Loader::take_zeros(Reader in) {
  u32 number = in.get<u32>();
  u64 offset = in.get<u64>(), bytes = in.get<u64>();
  auto it = regions_.find(number);
  bool sound = in.done() && it != regions_.end() && bytes > 0 && bytes <= protocol::kMostZeros &&
               bytes <= it->second.bytes && offset <= it->second.bytes - bytes;
  if (!sound || !it->second.lane->participant->loads_zeros())
    return fail("malformed ZerosAt: region {}", number);
  bytes_ += bytes;
  Lane &lane = *it->second.lane;
  if (!lane.closed)
    lane.waiting.push_back(
        {it->second.name, offset, {kNoSlot, nullptr}, static_cast<u32>(bytes), true});
  return {};
}

Result<> Loader::take_contents(Reader in) {
  u32 number = in.get<u32>();
  u64 offset = in.get<u64>(), bytes = in.get<u64>(), at = in.get<u64>(), ready = in.get<u64>();
  auto it = regions_.find(number);
  bool here = in.done() && it != regions_.end() && file_.memory != nullptr && bytes > 0 &&
              it->second.lane->participant == file_.participant;
  if (!here || bytes > it->second.bytes || offset > it->second.bytes - bytes ||
      ready > file_.memory->bytes() || at > file_.memory->bytes() ||
      bytes > DirectMemory::kPieceBytes - at % DirectMemory::kPieceBytes ||
      bytes > file_.memory->bytes() - at)
    return fail("malformed ContentsIn: region {}", number);
  if (!ahead_) ahead_.emplace(*file_.memory, file_.participant, 0);
  if (ready > 0) ahead_->reach(DirectMemory::piece_of(ready - 1));
  bytes_ += bytes;
  Lane &lane = *it->second.lane;
  if (!lane.closed)
    lane.waiting.push_back(
        {it->second.name, offset, {kNoSlot, file_.memory->at(at)}, static_cast<u32>(bytes), false});
  return {};
}

Result<> Loader::send_free(u32 slot) {
  held_.erase(slot);
  return tool_.send(Type::SlotFree, Writer().put(slot));
}

Loader::Lane *Loader::lane_of(std::string_view region) {
  for (auto &lane : lanes_)
    if (region.starts_with(std::string(lane->participant->name()) + "/")) return lane.get();
  return nullptr;
}

void Loader::abort(Error why) {
  errors_.push_back(std::move(why));
  changed_.notify_all();
}

}  // namespace ckpt::agent
