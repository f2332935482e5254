// SPDX-License-Identifier: Apache-2.0
#include "tools/session/device_shares.h"

#include <algorithm>

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
  settle(id, it->second);
  it = all_.find(id);
  return it == all_.end() ? nullptr : &it->second;
}

void DeviceShares::settle(const ShareId &id, Shared &s) {
  std::erase_if(s.uses, [this](const auto &use) { return !lives_(use.second.user); });
  if (!s.uses.contains(s.owner)) s.owner = 0;
  if (!s.uses.contains(s.exporter)) s.exporter = 0;
  if (std::ranges::all_of(s.uses, [](const auto &use) { return use.second.away; })) {
    s.memory.reset();
    s.piece.loaded = false;
  }
  if (s.uses.empty()) all_.erase(id);
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

void DeviceShares::away(const ShareId &id, const User &user) {
  Shared *s = find(id);
  if (s == nullptr) return;
  if (auto use = s->uses.find(user.token); use != s->uses.end()) use->second.away = true;
  settle(id, *s);
}

void DeviceShares::done(const ShareId &id, const User &user) {
  Shared *s = find(id);
  if (s == nullptr) return;
  s->uses.erase(user.token);
  settle(id, *s);
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
