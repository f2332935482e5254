// SPDX-License-Identifier: Apache-2.0
#include "manager/daemon/io/bounded_message.h"

namespace ckpt::manager {

namespace in = managed::to_manager;

managed::ToManager bounded(const Peer &peer, managed::ToManager message) {
  auto cut = [](std::string &text) {
    if (text.size() > managed::kMaxReasonBytes) text.resize(managed::kMaxReasonBytes);
  };
  if (auto *m = std::get_if<in::Join>(&message)) m->pid = static_cast<u32>(peer.pid);
  if (auto *m = std::get_if<in::Workload>(&message); m != nullptr && m->hash != 0)
    m->hash = hash_of_user(peer.uid, m->hash);
  if (auto *m = std::get_if<in::Failed>(&message)) cut(m->what);
  if (auto *m = std::get_if<in::Unsuited>(&message)) cut(m->why);
  return message;
}

}  // namespace ckpt::manager
