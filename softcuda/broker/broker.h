// SPDX-License-Identifier: Apache-2.0
//
// One process for each user and configuration. It knows how much memory of each device every
// process has, serialises the modelled time of devices, carries orders between processes, and
// passes on what they share.
#pragma once

#include <memory>
#include <vector>

#include "common/ipc/unix_socket.h"
#include "softcuda/broker/engines.h"
#include "softcuda/broker/held_files.h"
#include "softcuda/broker/protocol.h"
#include "softcuda/broker/shares.h"

namespace ckpt::softcuda::broker {

class Broker {
 public:
  Broker(Configuration c, UniqueFd listener, const std::string &seed);
  // Serves until no client has been connected for a second.
  Result<> run();

 private:
  struct Peer {
    UniqueFd fd;
    u64 identity = 0;
    i32 pid = 0;
    std::vector<u64> bytes;  // that it has on each device
    // A connection that executes orders.
    bool takes_orders = false;
    u32 ticket = 0;                 // of the current order; 0: none
    std::weak_ptr<Peer> requester;  // receives the answer
    Bytes last_answer;              // delivered when the connection is closed
    bool closing = false;
  };
  using PeerPtr = std::shared_ptr<Peer>;

  void accept();
  Result<> handle(const PeerPtr &p);
  Result<> reply(Peer &p, Response type, const Writer &w, std::span<const int> fds = {});
  Result<> take(Peer &p, Reader r);
  Result<> give(Peer &p, Reader r);
  Result<> info(Peer &p, Reader r);
  Result<> processes(Peer &p, Reader r);
  Result<> others(Peer &p);
  Result<> reserve(Peer &p, Reader r);
  Result<> ask(const PeerPtr &p, Reader r);
  Result<> identify(Peer &p);
  Result<> connected(Peer &p, Reader r);
  Result<> share(Peer &p, Message &m);
  Result<> hold(Peer &p, Reader r);
  Result<> drop(Peer &p, Reader r);
  Result<> withdraw(Peer &p, Reader r);
  Result<> open(Peer &p, Reader r);
  Result<> busy(Peer &p, Reader r);
  Result<> times(Peer &p, Reader r);
  Result<> answered(Peer &p, Reader r);
  void deliver(Peer &server, ByteView answer);
  void disconnected(const PeerPtr &p);
  u64 used(u32 device) const;
  u64 unused(u32 device) const;

  Configuration config_;
  UniqueFd listener_;
  std::vector<DeviceInfo> devices_;
  std::vector<PeerPtr> peers_;
  Shares shares_{share_limit()};
  HeldFiles held_;
  u64 next_identity_ = 1;
  u32 next_ticket_ = 1;
  std::vector<Engines> engines_;  // of each device
  i64 started_;                   // device_now()
};

}  // namespace ckpt::softcuda::broker
