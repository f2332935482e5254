// SPDX-License-Identifier: Apache-2.0
//
// What is free on each GPU, and whether managed programs or others use the rest.
#include <sys/stat.h>

#include <algorithm>

#include "common/base/log.h"
#include "manager/daemon/daemon.h"

namespace ckpt::manager {

// A program that has ended, or announced its exit, may still have memory for a moment.
void Daemon::measure(const Peer *about) {
  std::set<i32> seen;
  for (const Peer &p : peers_)
    for (pid_t pid : {p.pid, p.holder})
      if (exiting_.contains(pid)) seen.insert(pid);
  for (size_t g = 0; g < meter_->gpus().size(); g++) {
    GpuIndex gpu = static_cast<GpuIndex>(g);
    Result<Reading> r = meter_->read(g);
    if (!r) {
      log::warn("{}", r.error().what);
    } else if (!meter_->gpus()[g].measured) {
      u64 disconnected = std::min(r->free, disconnected_.bytes(gpu));
      policy_.measured(gpu, r->free - disconnected, disconnected > 0);
    } else {
      measure_one(gpu, *r, about, seen);
    }
  }
  exiting_.keep(seen);
}

void Daemon::measure_one(GpuIndex gpu, const Reading &r, const Peer *about, std::set<i32> &seen) {
  bool foreign = !r.processes, dying = false;
  Time time = now();
  u64 own = 0;
  for (const Reading::Process &p : r.processes.value_or(std::vector<Reading::Process>{})) {
    if (p.bytes == 0) continue;
    if (about != nullptr && about->has(p.pid)) own += p.bytes;
    bool managed = std::ranges::any_of(
        peers_, [&](const Peer &q) { return policy_.find(q.id) != nullptr && q.has(p.pid); });
    bool exiting = exiting_.is_exiting(time, p.pid);
    if (exiting_.contains(p.pid)) seen.insert(p.pid);
    dying = dying || exiting;
    foreign = foreign || (!managed && !exiting);
  }
  policy_.measured(gpu, r.free, foreign, dying);
  const Program *p = about != nullptr ? policy_.find(about->id) : nullptr;
  if (p != nullptr && r.processes && p->gpu() == gpu) policy_.footprint(about->id, own);
}

// Only a process of the same user can hold a program's memory.
void Daemon::note_holder(Peer &peer, u32 pid) {
  struct stat st {};
  bool good =
      pid != 0 && ::stat(fmt::format("/proc/{}", pid).c_str(), &st) == 0 && st.st_uid == peer.uid;
  peer.holder = good ? static_cast<pid_t>(pid) : 0;
}

void Daemon::remember(const Peer &peer) {
  const Program *p = policy_.find(peer.id);
  if (p == nullptr || p->gpu() == kNoGpu) return;
  if (!meter_->gpus()[static_cast<size_t>(p->gpu())].measured)
    disconnected_.add(peer.pid, p->gpu(), p->used + p->credit());
}

}  // namespace ckpt::manager
