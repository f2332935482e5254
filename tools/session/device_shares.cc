// SPDX-License-Identifier: Apache-2.0
#include "tools/session/device_shares.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "tools/proc/process.h"

namespace ckpt::tools {
namespace {

// Each takes a descriptor of the keeper's.
constexpr size_t kMostPieces = 4096;
constexpr size_t kMostUsers = 4096;

}  // namespace

// Null: unknown, or all its users have ended.
DeviceShares::Shared *DeviceShares::find(const ShareId &id) {
  auto it = all_.find(id);
  if (it == all_.end()) return nullptr;
  std::erase_if(it->second.uses, [this](const auto &use) { return !lives_(use.second.user); });
  return forget_the_unused(it) ? nullptr : &it->second;
}

// After users were removed. True: there was no other one, and `piece` is no more.
bool DeviceShares::forget_the_unused(Pieces::iterator piece) {
  Shared &s = piece->second;
  if (!s.uses.contains(s.owner)) s.owner = 0;
  if (!s.uses.contains(s.exporter)) s.exporter = 0;
  bool unused = s.uses.empty();
  if (unused) all_.erase(piece);
  return unused;
}

Result<> DeviceShares::offer(const ShareId &id, const User &user, const Piece &piece,
                             UniqueFd memory) {
  Shared *known = find(id);
  if (known == nullptr && all_.size() >= kMostPieces)
    return fail("the program shares {} pieces of device memory, and no more are possible",
                kMostPieces);
  if (known != nullptr && known->owner != 0 && known->owner != user.token)
    return fail("this device memory has another owner");
  Shared &s = all_[id];
  s.piece = piece;
  s.memory = std::move(memory);
  s.owner = user.token;
  if (piece.exported) s.exporter = user.token;
  s.uses[user.token] = {user, false};
  return {};
}

DeviceShares::Found DeviceShares::want(const ShareId &id, const User &user, bool had) {
  Shared *s = find(id);
  if (s == nullptr || (!had && s->exporter == 0)) return {};
  if (!s->piece.loaded) return {s->owner == 0 ? State::Lost : State::Pending, nullptr, -1};
  if (!s->uses.contains(user.token) && s->uses.size() >= kMostUsers) return {};
  s->uses[user.token] = {user, false};
  return {State::There, &s->piece, s->memory.get()};
}

Result<bool> DeviceShares::own(const ShareId &id, const User &user) {
  Shared *s = find(id);
  if (s == nullptr || !s->uses.contains(user.token))
    return fail("the keeper does not know of device memory that this process shares");
  if (s->owner == 0) s->owner = user.token;
  return s->owner == user.token;
}

void DeviceShares::loaded(const ShareId &id, const User &user) {
  if (Shared *s = find(id); s != nullptr && s->owner == user.token && s->memory)
    s->piece.loaded = true;
}

void DeviceShares::expect(const ShareId &id, const User &user) {
  Shared *s = find(id);
  bool room = s == nullptr ? all_.size() < kMostPieces : s->uses.size() < kMostUsers;
  if (room) all_[id].uses.try_emplace(user.token, Use{user, true});
}

// Only this lets the memory go, and not the end of a user: of those that are away, some may have
// returned to memory that they have never seen if its owner has loaded it and ended since.
void DeviceShares::away(const ShareId &id, const User &user) {
  Shared *s = find(id);
  if (s == nullptr || !s->uses.contains(user.token)) return expect(id, user);
  if (std::exchange(s->uses.at(user.token).away, true)) return;
  if (!std::ranges::all_of(s->uses, [](const auto &use) { return use.second.away; })) return;
  s->memory.reset();
  s->piece.loaded = false;
}

void DeviceShares::done(const ShareId &id, const User &user) {
  auto piece = all_.find(id);
  if (piece == all_.end()) return;
  piece->second.uses.erase(user.token);
  forget_the_unused(piece);
}

void DeviceShares::ended(u64 token) {
  for (auto piece = all_.begin(); piece != all_.end();) {
    auto next = std::next(piece);
    if (piece->second.uses.erase(token) > 0) forget_the_unused(piece);
    piece = next;
  }
}

DeviceShares::User share_user(u64 token, pid_t pid) {
  Result<Process> p = pid > 0 ? read_process(pid) : Result<Process>(Process{});
  return {token, pid, p ? p->start_ticks : 0};
}

bool share_user_lives(const DeviceShares::User &user) {
  if (user.pid <= 0) return true;
  Result<Process> p = read_process(user.pid);
  return p && p->start_ticks == user.start && p->state != 'Z' && p->state != 'X';
}

}  // namespace ckpt::tools
