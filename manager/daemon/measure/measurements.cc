// SPDX-License-Identifier: Apache-2.0
#include "manager/daemon/measure/measurements.h"

#include <sys/stat.h>

#include <algorithm>

#include "common/base/log.h"
#include "common/proc/file.h"

namespace ckpt::manager {

// One pass over all GPUs.
struct Measurements::Scan {
  Time now;
  const std::list<Peer> &peers;
  const Peer *about;
  Policy &policy;
  std::set<pid_t> seen;  // exiting processes that are connected, or have memory
};

std::vector<Gpu> Measurements::gpus() const {
  std::vector<Gpu> all;
  for (const MeteredGpu &g : meter_->gpus())
    all.push_back({.uuid = g.uuid,
                   .total = g.total,
                   .free = g.measured ? 0 : g.total,
                   .apis = g.apis,
                   .measured = g.measured});
  return all;
}

// A program that has ended, or announced its exit, may still have memory for a moment.
void Measurements::report(Time now, const std::list<Peer> &peers, const Peer *about,
                          Policy &policy) {
  Scan scan{now, peers, about, policy, {}};
  for (const Peer &p : peers)
    for (pid_t pid : {p.pid, p.holder})
      if (exiting_.contains(pid)) scan.seen.insert(pid);
  for (size_t g = 0; g < meter_->gpus().size(); g++) {
    GpuIndex gpu = static_cast<GpuIndex>(g);
    Result<Reading> r = meter_->read(g);
    if (!r) {
      if (unreadable_.admit(now, gpu)) log::warn("{}", r.error().what);
    } else if (!meter_->gpus()[g].measured) {
      u64 disconnected = std::min(r->free, disconnected_.bytes(gpu));
      policy.measured(gpu, r->free - disconnected, disconnected > 0);
    } else {
      report_one(gpu, *r, scan);
    }
  }
  exiting_.keep(scan.seen);
  energy_.read(now, *meter_, peers, policy);
}

void Measurements::report_one(GpuIndex gpu, const Reading &r, Scan &scan) {
  bool foreign = !r.processes, dying = false;
  const Peer *about = scan.about;
  u64 own = 0;
  for (const Reading::Process &p : r.processes.value_or(std::vector<Reading::Process>{})) {
    if (p.bytes == 0) continue;
    if (about != nullptr && about->has(p.pid)) own += p.bytes;
    bool managed = std::ranges::any_of(scan.peers, [&](const Peer &q) {
      return scan.policy.find(q.id) != nullptr && q.has(p.pid);
    });
    bool exiting = exiting_.is_exiting(scan.now, p.pid);
    if (exiting_.contains(p.pid)) scan.seen.insert(p.pid);
    dying = dying || exiting;
    foreign = foreign || (!managed && !exiting);
  }
  scan.policy.measured(gpu, r.free, foreign, dying);
  const Program *p = about != nullptr ? scan.policy.find(about->id) : nullptr;
  if (p != nullptr && r.processes && p->gpu() == gpu) scan.policy.footprint(about->id, own);
}

// Only a process of the same user can hold a program's memory.
void Measurements::note_holder(Peer &peer, u32 pid) {
  struct stat st {};
  bool good = pid != 0 && ::stat(proc::path(pid, "").c_str(), &st) == 0 && st.st_uid == peer.uid;
  peer.holder = good ? static_cast<pid_t>(pid) : 0;
}

void Measurements::exits(Time now, const Peer &peer) {
  exiting_.add(now, peer.pid);
  if (peer.holder != 0) exiting_.add(now, peer.holder);
}

void Measurements::disconnected(const Peer &peer, const Policy &policy) {
  energy_.gone(peer.id);
  const Program *p = policy.find(peer.id);
  if (p == nullptr || p->gpu() == kNoGpu) return;
  if (!meter_->gpus()[static_cast<size_t>(p->gpu())].measured)
    disconnected_.add(peer.pid, p->gpu(), p->used + p->credit());
}

}  // namespace ckpt::manager
