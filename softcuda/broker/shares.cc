// SPDX-License-Identifier: Apache-2.0
#include "softcuda/broker/shares.h"

#include <sys/random.h>
#include <sys/resource.h>

namespace ckpt::softcuda::broker {

std::optional<ShareId> read_share_id(Reader &r) {
  ShareId id{};
  ByteView bytes = r.raw(id.size());
  if (!r.ok()) return {};
  std::memcpy(id.data(), bytes.data(), id.size());
  return id;
}

Result<ShareId> Shares::add(Share share) {
  if (shares_.size() >= limit_) return fail("{} pieces of memory are shared already", limit_);
  ShareId id{};
  if (getrandom(id.data(), id.size(), 0) != static_cast<ssize_t>(id.size()))
    return fail_errno("cannot get a random number");
  shares_.emplace(id, std::move(share));
  return id;
}

const Share *Shares::find(const ShareId &id) const {
  auto it = shares_.find(id);
  return it == shares_.end() ? nullptr : &it->second;
}

void Shares::withdraw(u64 owner, const ShareId &id) {
  auto it = shares_.find(id);
  if (it != shares_.end() && it->second.owner == owner) shares_.erase(it);
}

void Shares::withdraw_all(u64 owner) {
  std::erase_if(shares_, [&](const auto &entry) { return entry.second.owner == owner; });
}

size_t share_limit() {
  rlimit files{};
  if (getrlimit(RLIMIT_NOFILE, &files) != 0) return 0;
  return static_cast<size_t>(files.rlim_cur) / 2;
}

}  // namespace ckpt::softcuda::broker
