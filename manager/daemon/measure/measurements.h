// SPDX-License-Identifier: Apache-2.0
//
// What is free on each GPU, and whether managed programs or others use the rest.
#pragma once

#include <list>
#include <memory>

#include "common/base/log_limit.h"
#include "manager/daemon/io/peer.h"
#include "manager/daemon/measure/disconnected_clients.h"
#include "manager/daemon/measure/energy.h"
#include "manager/daemon/measure/exiting_clients.h"
#include "manager/daemon/measure/meter.h"
#include "manager/policy/policy.h"

namespace ckpt::manager {

class Measurements {
 public:
  explicit Measurements(std::unique_ptr<Meter> meter) : meter_(std::move(meter)) {}
  const Meter &meter() const { return *meter_; }
  const EnergyShares &energy() const { return energy_; }
  std::vector<Gpu> gpus() const;
  // Milliseconds until report() has something to read although nothing happens; negative: never.
  int timeout(Time now, const Policy &policy) const {
    return energy_.timeout(now, !policy.programs().empty());
  }

  // Reports to the policy what is free. `about`: the program of the message that is processed next,
  // for which the policy also learns what the driver reports; null: there is no such program.
  void report(Time now, const std::list<Peer> &peers, const Peer *about, Policy &policy);

  // Process `pid` holds the device memory of the peer's program (the message Holder).
  static void note_holder(Peer &peer, u32 pid);
  void joined(const Peer &peer) { disconnected_.remove(peer.pid); }
  // Its program has announced its exit.
  void exits(Time now, const Peer &peer);
  // Its connection has ended; its program may be alive.
  void disconnected(const Peer &peer, const Policy &policy);

 private:
  struct Scan;
  void report_one(GpuIndex gpu, const Reading &reading, Scan &scan);

  std::unique_ptr<Meter> meter_;
  DisconnectedClients disconnected_;
  ExitingClients exiting_;
  EnergyShares energy_;
  LogLimit unreadable_;  // by GPU instead of by user
};

}  // namespace ckpt::manager
