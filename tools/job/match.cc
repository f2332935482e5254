// SPDX-License-Identifier: Apache-2.0
#include "tools/job/match.h"

#include <map>
#include <tuple>

namespace ckpt::tools {
namespace {

// Of two ends of one connection, one has `local` and `remote` exchanged. A loopback address means
// another machine on each node.
using Name = std::tuple<Endpoint, Endpoint, std::string>;

bool is_loopback(const Endpoint &e) {
  static const Endpoint kLoopback6 = *Endpoint::parse("::1", 0);
  return e.v6 ? e.address == kLoopback6.address : e.address[0] == 127;
}

Name name_of(const JobConnection &c, const std::string &node, bool other_end) {
  std::string where = is_loopback(c.local) ? node : "";
  return other_end ? Name{c.remote, c.local, where} : Name{c.local, c.remote, where};
}

// Empty: nothing is wrong. `other`: null if no member has it.
std::string trouble_of(const JobConnection &c, const JobConnection *other) {
  if (c.may_close || (other && other->may_close)) return {};
  if (c.state == InetSocket::SynSent || c.state == InetSocket::SynReceived)
    return fmt::format(
        "is a TCP connection to {} that is still being established: try again later, or close it",
        c.remote.text());
  if (other && other->held) return {};
  if (other)
    return fmt::format(
        "is a TCP connection to {} that is not accepted yet, or not closed yet: try again when it "
        "is",
        c.remote.text());
  // The other end has been closed, and had received everything.
  if (c.state == InetSocket::CloseWait) return {};
  return fmt::format(
      "is a TCP connection to {}, where no member of the job has the other end: start the program "
      "there with ckpt-run --job, too, or close the connection",
      c.remote.text());
}

}  // namespace

Reasons unmatched_connections(const std::vector<MemberConnections> &members) {
  std::map<Name, const JobConnection *> ends;
  for (const MemberConnections &m : members)
    for (const JobConnection &c : m.connections) ends[name_of(c, m.node, false)] = &c;
  Reasons reasons;
  for (const MemberConnections &m : members)
    for (const JobConnection &c : m.connections) {
      if (!c.held) continue;
      auto other = ends.find(name_of(c, m.node, true));
      std::string why = trouble_of(c, other == ends.end() ? nullptr : other->second);
      if (!why.empty()) reasons.push_back(fmt::format("{}: {} {}", m.member, c.owner, why));
    }
  return reasons;
}

}  // namespace ckpt::tools
