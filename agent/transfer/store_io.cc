// SPDX-License-Identifier: Apache-2.0
#include "agent/transfer/store_io.h"

#include <algorithm>

#include "common/base/log.h"

namespace ckpt::agent {
namespace {

std::vector<u32> all_slots(const Staging &staging) {
  std::vector<u32> slots;
  for (u32 i = staging.slots(); i-- > 0;) slots.push_back(i);
  return slots;
}

CopyPool::Work write_to(const ContentsStore &store) {
  return [&store](const CopyPiece &p) { return store.write(p.at, {p.slot.data, p.bytes}); };
}

CopyPool::Work read_from(const ContentsStore &store) {
  return [&store](const CopyPiece &p) { return store.read(p.at, {p.slot.data, p.bytes}); };
}

}  // namespace

// ---- places

std::span<std::byte> StorePlaces::take(u64 bytes) {
  DirectMemory *direct = store_.direct();
  if (direct == nullptr || full_) return {};
  if (!ahead_) ahead_.emplace(*direct, participant_);
  std::optional<DirectMemory::Place> place = direct->take(bytes);
  Result<> ready = place ? ahead_->wait_for(DirectMemory::piece_of(place->at)) : Result<>{};
  if (!ready) log::info("device memory is copied in small pieces: {}", ready.error().what);
  full_ = !place || !ready;
  if (full_) return {};
  return {direct->at(place->at), place->bytes};
}

std::optional<DirectMemory::Place> StorePlaces::take_unprepared(u64 bytes) {
  if (full_) return {};
  std::optional<DirectMemory::Place> place = store_.direct()->take(bytes);
  full_ = !place;
  return place;
}

Result<u64> StorePlaces::placed(const std::string &region, u64 offset, std::span<std::byte> bytes) {
  u64 at = static_cast<u64>(bytes.data() - store_.direct()->at(0));
  return store_.placed(region, offset, {at, bytes.size()});
}

// ---- into the store and to the next sink

CopyingSink::CopyingSink(Sink &next, ContentsStore &store, std::string prefix, StoreReader *reader,
                         Participant *participant)
    : next_(next),
      store_(store),
      prefix_(std::move(prefix)),
      reader_(reader),
      places_(store, participant),
      pool_(write_to(store)) {}

Result<u32> CopyingSink::region(const std::string &name, u64 bytes) {
  CKPT_TRY(u32 number, next_.region(name, bytes));
  CKPT_CHECK(store_.region(prefix_ + name, bytes));
  if (names_.size() <= number) names_.resize(number + 1);
  names_[number] = prefix_ + name;
  return number;
}

// A slot is passed to the tool only when the store has its contents. At most half of the slots wait
// for that; otherwise the tool might have none that it could return.
Result<Slot> CopyingSink::acquire() {
  while (pool_.any_done() || pool_.in_flight() > slot_count() / 2) CKPT_CHECK(pass_on());
  return next_.acquire();
}

Result<std::string> CopyingSink::name_of(u32 region) const {
  if (region >= names_.size()) return fail("region {} was never announced", region);
  return names_[region];
}

Result<> CopyingSink::put(u32 region, u64 offset, Slot slot, u32 bytes) {
  CKPT_TRY(std::string name, name_of(region));
  CKPT_TRY(u64 at, store_.place_of(name, offset, bytes));
  pool_.add({region, offset, slot, bytes, at});
  return {};
}

Result<std::span<std::byte>> CopyingSink::place(u32, u64, u64 bytes) {
  return reader_ != nullptr ? places_.take(bytes) : std::span<std::byte>();
}

Result<> CopyingSink::placed(u32 region, u64 offset, std::span<std::byte> bytes) {
  CKPT_TRY(std::string name, name_of(region));
  CKPT_TRY(u64 at, places_.placed(name, offset, bytes));
  if (at == ContentsStore::kZeros) return reader_->zeros(region, offset, bytes.size());
  return reader_->stored(region, offset, bytes.size(), at,
                         {store_.direct_fd(), store_.direct()->bytes()});
}

Result<> CopyingSink::zeros(u32 region, u64 offset, u64 bytes) {
  CKPT_TRY(std::string name, name_of(region));
  CKPT_CHECK(store_.zeros(name, offset, bytes));
  return reader_->zeros(region, offset, bytes);
}

bool CopyingSink::takes_later() const {
  return reader_ != nullptr && store_.direct() != nullptr && next_.takes_later();
}

Sink::File CopyingSink::later_file() const {
  return {store_.direct_fd(), store_.direct()->bytes()};
}

Result<> CopyingSink::begin_later(int socket, bool owed) {
  CKPT_CHECK(reader_->send_file(later_file()));
  return next_.begin_later(socket, owed);
}

Result<Sink::Later> CopyingSink::later(u32 region, u64 offset, u64 bytes) {
  CKPT_TRY(std::string name, name_of(region));
  std::optional<DirectMemory::Place> place = places_.take_unprepared(bytes);
  if (!place) return Later{};
  CKPT_CHECK(store_.due(name, offset, *place));
  CKPT_CHECK(reader_->due(region, offset, place->bytes, place->at));
  return Later{place->at, place->bytes};
}

Result<> CopyingSink::same_chunk(u32 region, u64 offset, u32 bytes, const ChunkAddress &address) {
  CKPT_TRY(std::string name, name_of(region));
  CKPT_CHECK(store_.same_chunk(name, offset, bytes, address));
  return next_.same_chunk(region, offset, bytes, address);
}

Result<> CopyingSink::finish() {
  while (pool_.in_flight() > 0) CKPT_CHECK(pass_on());
  return {};
}

Result<> CopyingSink::pass_on() {
  CKPT_TRY(CopyPiece p, pool_.take());
  return next_.put(p.region, p.offset, p.slot, p.bytes);
}

// ---- into the store only

StoreSink::StoreSink(ContentsStore &store, Staging &staging, std::string prefix,
                     Participant *participant)
    : store_(store),
      staging_(staging),
      prefix_(std::move(prefix)),
      free_(all_slots(staging)),
      places_(store, participant),
      pool_(write_to(store)) {}

Result<u32> StoreSink::region(const std::string &name, u64 bytes) {
  names_.push_back(prefix_ + name);
  CKPT_CHECK(store_.region(names_.back(), bytes));
  return static_cast<u32>(names_.size() - 1);
}

Result<Slot> StoreSink::acquire() {
  while (pool_.any_done() || (free_.empty() && pool_.in_flight() > 0)) CKPT_CHECK(take_one());
  if (free_.empty()) return fail("every slot of staging memory is in use");
  Slot slot = staging_.slot(free_.back());
  free_.pop_back();
  return slot;
}

Result<> StoreSink::put(u32 region, u64 offset, Slot slot, u32 bytes) {
  if (region >= names_.size()) return fail("region {} was never announced", region);
  CKPT_TRY(u64 at, store_.place_of(names_[region], offset, bytes));
  pool_.add({region, offset, slot, bytes, at});
  return {};
}

Result<std::span<std::byte>> StoreSink::place(u32, u64, u64 bytes) { return places_.take(bytes); }

Result<> StoreSink::placed(u32 region, u64 offset, std::span<std::byte> bytes) {
  if (region >= names_.size()) return fail("region {} was never announced", region);
  CKPT_CHECK(places_.placed(names_[region], offset, bytes));
  return {};
}

Result<> StoreSink::zeros(u32 region, u64 offset, u64 bytes) {
  if (region >= names_.size()) return fail("region {} was never announced", region);
  return store_.zeros(names_[region], offset, bytes);
}

Result<> StoreSink::finish() {
  while (pool_.in_flight() > 0) CKPT_CHECK(take_one());
  return {};
}

Result<> StoreSink::take_one() {
  CKPT_TRY(CopyPiece p, pool_.take());
  free_.push_back(p.slot.index);
  return {};
}

// ---- out of the store

StoreSource::StoreSource(const ContentsStore &store, Staging &staging, const std::string &prefix,
                         Participant *participant)
    : store_(store),
      staging_(staging),
      prefix_bytes_(prefix.size()),
      regions_(store.regions(prefix)),
      free_(all_slots(staging)),
      pool_(read_from(store)) {
  auto in_memory = [](const auto &p) { return p.second.at != ContentsStore::kZeros; };
  auto has_places = [&](const ContentsStore::Region &r) {
    return std::ranges::any_of(r.places, in_memory);
  };
  if (!regions_.empty()) place_ = regions_.front().places.begin();
  begin_region(0);
  if (std::ranges::any_of(regions_, has_places)) ahead_.emplace(*store.direct(), participant);
}

Result<bool> StoreSource::next_place(Piece &piece) {
  while (placed_region_ < regions_.size() && place_ == regions_[placed_region_].places.end())
    if (++placed_region_ < regions_.size()) place_ = regions_[placed_region_].places.begin();
  if (placed_region_ == regions_.size()) return false;
  const auto &[offset, p] = *place_++;
  bool zeros = p.at == ContentsStore::kZeros;
  piece = {regions_[placed_region_].name.substr(prefix_bytes_),
           offset,
           {kNoSlot, nullptr},
           static_cast<u32>(p.bytes),
           zeros};
  if (zeros) return true;
  piece.slot.data = store_.direct()->at(p.at);
  CKPT_CHECK(ahead_->wait_for(DirectMemory::piece_of(p.at)));
  return true;
}

Result<bool> StoreSource::next(Piece &piece) {
  CKPT_TRY(bool placed, next_place(piece));
  if (placed) return true;
  read_ahead();
  if (pool_.in_flight() == 0) {
    if (region_ == regions_.size()) return false;
    return fail("every slot of staging memory is in use");
  }
  CKPT_TRY(CopyPiece p, pool_.take());
  piece = {regions_[p.region].name.substr(prefix_bytes_), p.offset, p.slot, p.bytes, false};
  return true;
}

Result<> StoreSource::release(Slot slot) {
  if (slot.index != kNoSlot) free_.push_back(slot.index);
  return {};
}

void StoreSource::begin_region(size_t number) {
  region_ = static_cast<u32>(number);
  offset_ = 0;
  if (number < regions_.size()) skipped_ = regions_[number].places.begin();
}

// Goes past the places at the offset. Returns the end of what is in the files from there on.
u64 StoreSource::end_of_gap() {
  const ContentsStore::Region &r = regions_[region_];
  for (; skipped_ != r.places.end() && skipped_->first == offset_; ++skipped_)
    offset_ += skipped_->second.bytes;
  return skipped_ == r.places.end() ? r.bytes : skipped_->first;
}

void StoreSource::read_ahead() {
  while (region_ < regions_.size() && !free_.empty()) {
    const ContentsStore::Region &r = regions_[region_];
    u64 end = end_of_gap();
    if (offset_ == r.bytes) {
      begin_region(region_ + 1);
      continue;
    }
    u32 bytes = static_cast<u32>(std::min<u64>(slot_bytes(), end - offset_));
    pool_.add({region_, offset_, staging_.slot(free_.back()), bytes, r.at + offset_});
    free_.pop_back();
    offset_ += bytes;
  }
}

}  // namespace ckpt::agent
