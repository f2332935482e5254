// SPDX-License-Identifier: Apache-2.0
#include "agent/transfer/store_io.h"

#include <algorithm>

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

// ---- into the store and to the next sink

CopyingSink::CopyingSink(Sink &next, ContentsStore &store, std::string prefix)
    : next_(next), store_(store), prefix_(std::move(prefix)), pool_(write_to(store)) {}

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

Result<> CopyingSink::put(u32 region, u64 offset, Slot slot, u32 bytes) {
  if (region >= names_.size()) return fail("region {} was never announced", region);
  CKPT_TRY(u64 at, store_.place_of(names_[region], offset, bytes));
  pool_.add({region, offset, slot, bytes, at});
  return {};
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

StoreSink::StoreSink(ContentsStore &store, Staging &staging, std::string prefix)
    : store_(store),
      staging_(staging),
      prefix_(std::move(prefix)),
      free_(all_slots(staging)),
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

StoreSource::StoreSource(const ContentsStore &store, Staging &staging, const std::string &prefix)
    : staging_(staging),
      prefix_bytes_(prefix.size()),
      regions_(store.regions(prefix)),
      free_(all_slots(staging)),
      pool_(read_from(store)) {}

Result<bool> StoreSource::next(Piece &piece) {
  read_ahead();
  if (pool_.in_flight() == 0) {
    if (region_ == regions_.size()) return false;
    return fail("every slot of staging memory is in use");
  }
  CKPT_TRY(CopyPiece p, pool_.take());
  piece = {regions_[p.region].name.substr(prefix_bytes_), p.offset, p.slot, p.bytes};
  return true;
}

Result<> StoreSource::release(Slot slot) {
  free_.push_back(slot.index);
  return {};
}

void StoreSource::read_ahead() {
  for (;;) {
    while (region_ < regions_.size() && offset_ == regions_[region_].bytes) {
      region_++;
      offset_ = 0;
    }
    if (region_ == regions_.size() || free_.empty()) return;
    const ContentsStore::Region &r = regions_[region_];
    u32 bytes = static_cast<u32>(std::min<u64>(slot_bytes(), r.bytes - offset_));
    pool_.add({region_, offset_, staging_.slot(free_.back()), bytes, r.at + offset_});
    free_.pop_back();
    offset_ += bytes;
  }
}

}  // namespace ckpt::agent
