// SPDX-License-Identifier: Apache-2.0
//
// The broker's books and its loop: which process has how much of which device.
#pragma once

#include <memory>
#include <vector>

#include "common/ipc/unix_socket.h"
#include "softcuda/broker/engines.h"
#include "softcuda/broker/protocol.h"

namespace ckpt::softcuda::broker {

class Broker {
 public:
  Broker(Configuration c, UniqueFd listener, const std::string &seed);
  // Until nobody is connected for kIdle.
  Result<> run();

 private:
  struct Peer {
    UniqueFd fd;
    i32 pid = 0;
    bool serves = false;
    std::vector<u64> bytes;     // of each device
    u32 ticket = 0;             // serves: of the order that it has
    std::weak_ptr<Peer> asker;  // whom to answer
    Bytes last_answer;          // told when the peer has hung up
    bool closing = false;
  };
  using PeerPtr = std::shared_ptr<Peer>;

  void accept();
  Result<> handle(const PeerPtr &p);
  Result<> reply(Peer &p, Response type, const Writer &w);
  Result<> take(Peer &p, Reader r);
  Result<> give(Peer &p, Reader r);
  Result<> info(Peer &p, Reader r);
  Result<> processes(Peer &p, Reader r);
  Result<> reserve(Peer &p, Reader r);
  Result<> ask(const PeerPtr &p, Reader r);
  Result<> answered(Peer &p, Reader r);
  void deliver(Peer &server, ByteView answer);
  void hung_up(const PeerPtr &p);
  u64 used(u32 device) const;

  Configuration config_;
  UniqueFd listener_;
  std::vector<DeviceInfo> devices_;
  std::vector<PeerPtr> peers_;
  u32 next_ticket_ = 1;
  std::vector<Engines> engines_;  // of each device
};

}  // namespace ckpt::softcuda::broker
