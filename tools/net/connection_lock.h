// SPDX-License-Identifier: Apache-2.0
//
// Stops the packets of TCP connections while CRIU dumps or restores their two ends.
//
// Why. CRIU reads one end after the other. The program is stopped, but the kernel's timers are not:
// between the two reads a retransmission, a delayed acknowledgement or the small segment that
// waited for it (Nagle) can move bytes from one end to the other. Then the image has the first end
// without these bytes, and the second end as having sent them, and both wait forever after a
// restore. A restore has the same problem: CRIU sends what was unsent as soon as one end exists,
// and without the other end the kernel answers with a reset.
//
// How. A table of nftables drops what arrives for these connections. TCP repeats it afterwards. It
// is what `criu --network-lock nftables` does, but CRIU leaves its table behind if it leaves the
// program stopped (criu/cr-dump.c: network_unlock() is called only if the program continues), which
// would cut the program off. Our table is owned by our socket (NFT_TABLE_F_OWNER, Linux 5.12), so
// the kernel removes it with this object, or with a tool that is killed. CRIU runs with
// --network-lock skip. The packets by which CRIU itself restores a connection that is being closed
// carry its mark and pass (criu/include/net.h: SOCCR_MARK).
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "tools/net/inet_table.h"

namespace ckpt::tools {

// The packets from one endpoint to another. A connection has two of these.
struct PacketFlow {
  Endpoint from, to;
  bool operator==(const PacketFlow &) const = default;
};

class ConnectionLock {
 public:
  ConnectionLock() = default;
  // In our own network namespace. Without flows: only shows whether the kernel can do it.
  static Result<ConnectionLock> take(const std::vector<PacketFlow> &flows);
  void release() { netlink_.reset(); }
  // Why take() has failed, and what to do.
  static std::string advice(const Error &e);

 private:
  explicit ConnectionLock(UniqueFd netlink) : netlink_(std::move(netlink)) {}
  UniqueFd netlink_;
};

}  // namespace ckpt::tools
