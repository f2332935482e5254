// SPDX-License-Identifier: Apache-2.0
//
// The functions of Lifecycle that keep the contents of devices in a store of this process.
#include "agent/lifecycle/lifecycle.h"

#include <algorithm>

#include "agent/transfer/store_io.h"
#include "common/base/available_memory.h"

namespace ckpt::agent {
namespace {

// Staging memory for what is not copied directly into a store and out of it.
constexpr u32 kStoreSlots = 32;
constexpr u32 kStoreSlotBytes = 1u << 20;

std::string prefix_of(const Participant *p) { return std::string(p->name()) + "/"; }

}  // namespace

// A failure shows when the memory is needed.
void Lifecycle::prepare(u64 most) {
  prepared_.reset();
  prepared_bytes_ = direct_bytes();
  if (prepared_bytes_ == 0 || most == 0) return;
  Result<std::string> folder = ContentsStore::place_for(prepared_bytes_);
  if (!folder || !folder->empty()) return;
  Result<ContentsStore> store = ContentsStore::create("", prepared_bytes_);
  if (!store || store->direct() == nullptr) return;
  populate_first(*store->direct(), most);
  prepared_.emplace(std::move(*store));
}

// The copies take as much memory as the contents will take again; and something is left.
void Lifecycle::copy_ahead(u32 rounds, const std::function<bool()> &stop) {
  std::vector<Participant *> all = participants_();
  for (Participant *p : all) p->copy_ahead(rounds, available_memory() / 3 / all.size(), stop);
}

void Lifecycle::drop_prepared() {
  prepared_.reset();
  for (Participant *p : participants_()) p->drop_ahead();
}

Result<bool> Lifecycle::start_owner() {
  bool any = false;
  for (Participant *p : participants_()) {
    CKPT_TRY(bool started, p->start_owner());
    any = any || started;
  }
  return any;
}

bool Lifecycle::looks() const {
  return std::ranges::any_of(participants_(), [](Participant *p) { return p->looks(); });
}

bool Lifecycle::loads_zeros() const {
  return std::ranges::all_of(members_,
                             [](const Member &m) { return m.participant->loads_zeros(); });
}

Participant *Lifecycle::place_loader() const {
  auto found =
      std::ranges::find_if(members_, [](const Member &m) { return m.participant->loads_places(); });
  return found == members_.end() ? nullptr : found->participant;
}

Result<> Lifecycle::create_store() {
  u64 bytes = 0;
  for (Participant *p : participants_()) bytes += p->keeps_contents() ? 0 : p->lost_bytes();
  CKPT_TRY(std::string folder, ContentsStore::place_for(bytes));
  return open_store(folder);
}

// What prepare() has taken is used if it suffices: the program may have allocated more since.
Result<> Lifecycle::open_store(const std::string &folder) {
  u64 bytes = direct_bytes();
  std::optional<ContentsStore> prepared = std::exchange(prepared_, std::nullopt);
  if (prepared && folder.empty() && prepared_bytes_ >= bytes) {
    store_ = std::move(prepared);
    return {};
  }
  prepared.reset();
  CKPT_TRY(store_, ContentsStore::create(folder, bytes));
  return {};
}

u64 Lifecycle::direct_bytes() const {
  u64 bytes = 0;
  for (Participant *p : participants_()) bytes += p->contents_bytes();
  return bytes;
}

// Contents that the devices lose in detach() also go into a store, until the dump is over.
Result<> Lifecycle::save_one(Participant &participant, StagingSink &sink) {
  if (participant.keeps_contents()) return participant.save(sink);
  if (!store_) CKPT_CHECK(create_store());
  store_->use_parent(sink.chunks());
  CopyingSink both(sink, *store_, prefix_of(&participant), sink.reader(), &participant);
  CKPT_CHECK(participant.save(both));
  return both.finish();
}

Result<> Lifecycle::move_into_store() {
  CKPT_TRY(Staging staging, Staging::create(kStoreSlots, kStoreSlotBytes));
  for (Member &m : members_) {
    StoreSink sink(*store_, staging, prefix_of(m.participant), m.participant);
    Result<> saved = m.participant->save(sink);
    if (saved) saved = sink.finish();
    if (!saved) return Failure(cannot("save its devices", m.participant, std::move(saved).error()));
  }
  return {};
}

Result<> Lifecycle::load_from_store(Participant *participant) {
  CKPT_TRY(Staging staging, Staging::create(kStoreSlots, kStoreSlotBytes));
  StoreSource source(*store_, staging, prefix_of(participant), participant);
  Result<> loaded = participant->load(source);
  if (!loaded) return Failure(cannot("load its devices", participant, std::move(loaded).error()));
  return {};
}

}  // namespace ckpt::agent
