// SPDX-License-Identifier: Apache-2.0
#include "remote/server/admission.h"

#include <algorithm>

namespace ckpt::remote {

Result<> Admission::admit(Id id, const std::string &user) {
  if (user.empty() || (!users_.contains(user) && !users_.contains("*")))
    return fail_with_hint(fmt::format("the user \"{}\" may not use the devices of this node", user),
                          "its administrator adds users with ckpt-devd --allow");
  auto same = [&](const auto &c) { return c.second.user == user; };
  if (std::count_if(connections_.begin(), connections_.end(), same) >=
      static_cast<long>(limits_.connections))
    return fail_with_hint(
        fmt::format("the user \"{}\" has {} connections, as many as one user may have", user,
                    limits_.connections),
        "end programs, or raise ckpt-devd --connections");
  if (connections_.size() >= limits_.all_connections)
    return fail_with_hint(
        fmt::format("all {} connections of this node are in use", limits_.all_connections),
        "try again later, or raise ckpt-devd --all-connections");
  connections_[id] = {user, 0};
  return {};
}

bool Admission::change_memory(Id id, i64 change) {
  auto found = connections_.find(id);
  if (found == connections_.end()) return false;
  Connection &c = found->second;
  if (change < 0) {
    c.bytes -= std::min(c.bytes, u64{0} - static_cast<u64>(change));
    return true;
  }
  u64 more = static_cast<u64>(change), used = memory_of(c.user);
  if (limits_.memory != 0 && (used > limits_.memory || more > limits_.memory - used)) return false;
  c.bytes += more;
  return true;
}

void Admission::left(Id id) { connections_.erase(id); }

u64 Admission::memory_of(const std::string &user) const {
  u64 all = 0;
  for (const auto &[id, c] : connections_)
    if (c.user == user) all += c.bytes;
  return all;
}

}  // namespace ckpt::remote
