// SPDX-License-Identifier: Apache-2.0
#include "remote/server/inventory.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "common/base/fields.h"

namespace ckpt::remote {
namespace {

// An entry is for one choice of devices, and a user's new ones replace that user's old ones.
constexpr size_t kMostOfUser = 8, kMostEntries = 256, kMostUsers = 4096;
// Of an entry, so that it fits into one answer of the daemon (notes.cc). The answers to all queries
// of four devices have about 16 KiB.
constexpr size_t kMaxBytes = 48u << 10;

size_t size_of(ByteView key, const Inventory::Answer &answer) {
  return key.size() + answer.bytes.size() + 16;
}

}  // namespace

Bytes Inventory::encoded() const {
  Writer w;
  w.blob(platforms).put(static_cast<u32>(answers.size()));
  for (const auto &[key, answer] : answers) w.blob(key).put(answer.status).blob(answer.bytes);
  return w.take();
}

Inventory Inventory::read(Reader r) {
  auto bytes = [&r] {
    ByteView b = r.blob();
    return Bytes(b.begin(), b.end());
  };
  Inventory all;
  all.platforms = bytes();
  for (u32 n = read_count(r, 3 * sizeof(u32)); n > 0 && r.ok(); n--) {
    Bytes key = bytes();
    i32 status = r.get<i32>();
    all.answers[std::move(key)] = {status, bytes()};
  }
  return r.done() ? all : Inventory();
}

Inventories::Entry *Inventories::entry(const Owner &owner) {
  auto found = std::ranges::find(entries_, owner, &Entry::owner);
  return found == entries_.end() ? nullptr : &*found;
}

const Inventory *Inventories::find(const Owner &owner) const {
  auto found = std::ranges::find(entries_, owner, &Entry::owner);
  return found == entries_.end() ? nullptr : &found->inventory;
}

void Inventories::greeted(const Owner &owner, ByteView platforms) {
  Entry *known = entry(owner);
  if (known && std::ranges::equal(known->inventory.platforms, platforms)) return;
  forget(owner);
  if (platforms.empty() || platforms.size() > kMaxBytes) return;
  auto same_user = [&](const Entry &e) { return e.owner.user == owner.user; };
  if (static_cast<size_t>(std::ranges::count_if(entries_, same_user)) >= kMostOfUser)
    entries_.erase(std::prev(std::find_if(entries_.rbegin(), entries_.rend(), same_user).base()));
  entries_.push_front({owner, platforms.size(), {{platforms.begin(), platforms.end()}, {}}});
  if (entries_.size() > kMostEntries) entries_.pop_back();
}

void Inventories::answered(const Owner &owner, ByteView key, Inventory::Answer answer) {
  Entry *e = entry(owner);
  if (!e) return;
  Bytes name(key.begin(), key.end());
  auto known = e->inventory.answers.find(name);
  if (known != e->inventory.answers.end()) {
    if (known->second != answer) forget(owner);
    return;
  }
  size_t bytes = e->bytes + size_of(key, answer);
  if (bytes > kMaxBytes) return;
  e->bytes = bytes;
  e->inventory.answers.emplace(std::move(name), std::move(answer));
}

void Inventories::forget(const Owner &owner) {
  std::erase_if(entries_, [&](const Entry &e) { return e.owner == owner; });
}

void Inventories::listed(const std::string &user, u64 hash) {
  if (lists_.size() >= kMostUsers && !lists_.contains(user)) lists_.clear();
  auto [last, first] = lists_.emplace(user, hash);
  if (first || std::exchange(last->second, hash) == hash) return;
  std::erase_if(entries_, [&](const Entry &e) { return e.owner.user == user; });
}

}  // namespace ckpt::remote
