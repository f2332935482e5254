// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/connections.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <thread>

#include "common/base/clock.h"
#include "tools/proc/descriptors.h"

namespace ckpt::tools {
namespace {

using namespace std::chrono_literals;

// A connection is established and accepted within moments, unless the program no longer accepts
// any.
constexpr auto kAcceptTimeout = 1s;

// "process 12 (sshd)", or "" if no process of this machine has the socket.
std::string owner_of(u64 inode) {
  if (inode == 0) return {};
  for (const Process &p : ProcessTable::read().names())
    for (const Descriptor &d : descriptors_of(p.pid))
      if (d.kind == Descriptor::Kind::Socket && d.inode == inode) return name_of(p);
  return {};
}

// The kernel has nothing left to send for it.
bool is_closed(const InetSocket &s) {
  return s.state == InetSocket::FinWait2 || s.state == InetSocket::TimeWait;
}

}  // namespace

Connections Connections::read(const Target &target) {
  Connections c;
  c.table_ = inet_sockets(::getpid(), InetProtocol::Tcp);
  for (const Process &p : target.processes) c.read_process(p);
  c.find_flows();
  return c;
}

void Connections::read_process(const Process &p) {
  bool ours = namespace_of(p.pid, "net") == namespace_of(::getpid(), "net");
  std::map<u64, Held> here;
  for (InetProtocol protocol : {InetProtocol::Tcp, InetProtocol::Udp})
    for (const InetSocket &s : inet_sockets(p.pid, protocol))
      if (s.inode) here[s.inode] = {p.pid, -1, p.command, protocol == InetProtocol::Udp, !ours, s};
  for (const Descriptor &d : descriptors_of(p.pid)) {
    auto it = d.kind == Descriptor::Kind::Socket ? here.find(d.inode) : here.end();
    if (it == here.end() || !inside_.insert(d.inode).second) continue;
    it->second.fd = d.fd;
    held_.push_back(it->second);
  }
}

void Connections::find_flows() {
  for (const Held &h : held_)
    if (!h.udp && !h.own_namespace && h.socket.connected())
      flows_.push_back({h.socket.remote, h.socket.local});
}

const InetSocket *Connections::other_end(const InetSocket &s) const {
  auto other = std::find_if(table_.begin(), table_.end(), [&](const InetSocket &o) {
    return o.connected() && o.local == s.remote && o.remote == s.local;
  });
  return other == table_.end() ? nullptr : &*other;
}

Connections::Trouble Connections::trouble_of(const Held &h, Scope scope) const {
  const InetSocket &s = h.socket;
  if (h.udp) return {};
  if (s.state == InetSocket::Listen && s.unaccepted)
    return {fmt::format("listens on TCP {} and has not accepted {} connection{} yet: try again "
                        "when the program has",
                        s.local.text(), s.unaccepted, s.unaccepted == 1 ? "" : "s"),
            true};
  if (!s.connected()) return {};
  if (h.own_namespace)
    return {
        fmt::format("is a TCP connection to {} in a network namespace of the program's own, "
                    "which ckpt cannot checkpoint: close it first",
                    s.remote.text())};
  return scope == Scope::Program ? trouble_of_other_end(h) : Trouble{};
}

Connections::Trouble Connections::trouble_of_other_end(const Held &h) const {
  const InetSocket &s = h.socket;
  if (s.state == InetSocket::SynSent || s.state == InetSocket::SynReceived)
    return {fmt::format("is a TCP connection to {} that is still being established: try again "
                        "later, or close it",
                        s.remote.text()),
            true};
  const InetSocket *other = other_end(s);
  if (!other) {
    // The other end has been closed, and had received everything.
    if (s.state == InetSocket::CloseWait) return {};
    return {
        fmt::format("is a TCP connection to {}, outside of the program: close it first, or "
                    "start the programs as a job (ckpt-run --job)",
                    s.remote.text())};
  }
  if (other->inode == 0) {
    if (is_closed(*other)) return {};
    return {fmt::format("is a TCP connection to {} that is not accepted yet, or not closed yet: "
                        "try again when it is",
                        s.remote.text()),
            true};
  }
  if (inside_.contains(other->inode)) return {};
  std::string owner = owner_of(other->inode);
  return {fmt::format("is a TCP connection to {}{}, outside of the program: close it first",
                      s.remote.text(), owner.empty() ? "" : " of " + owner)};
}

std::vector<Connections::Trouble> Connections::troubles(Scope scope) const {
  std::vector<Trouble> all;
  for (const Held &h : held_)
    if (Trouble t = trouble_of(h, scope); !t.why.empty()) {
      t.why = fmt::format("{} {}", h.owner(), t.why);
      t.pid = h.pid;
      all.push_back(std::move(t));
    }
  return all;
}

void Connections::check(const Target &target, Scope scope, Closables &reasons) {
  auto end = Clock::now() + kAcceptTimeout;
  Connections now = read(target);
  std::vector<Trouble> all = now.troubles(scope);
  auto wait_helps = [&] {
    return !all.empty() &&
           std::all_of(all.begin(), all.end(), [](const Trouble &t) { return t.may_pass; });
  };
  while (wait_helps() && Clock::now() < end) {
    std::this_thread::sleep_for(5ms);
    now = read(target);
    all = now.troubles(scope);
  }
  for (Trouble &t : all) reasons.push_back({t.pid, std::move(t.why)});
  if (!now.empty() && all.empty() && scope != Scope::Closed) now.check_lock(reasons);
}

void Connections::check_lock(Closables &reasons) const {
  Result<ConnectionLock> lock = ConnectionLock::take({});
  if (lock) return;
  std::set<pid_t> named;
  for (const Held &h : held_)
    if (!h.udp && h.socket.connected() && named.insert(h.pid).second)
      reasons.push_back(
          {h.pid, fmt::format("process {} ({}) has TCP connections: their packets must be stopped "
                              "during a dump, and {}, or close the connections",
                              h.pid, h.command, ConnectionLock::advice(lock.error()))});
}

bool Connections::all_in(const Connections &earlier) const {
  return std::all_of(flows_.begin(), flows_.end(), [&](const PacketFlow &f) {
    return std::find(earlier.flows_.begin(), earlier.flows_.end(), f) != earlier.flows_.end();
  });
}

std::string Connections::Held::owner() const {
  return fmt::format("process {} ({}): descriptor {}", pid, command, fd);
}

std::vector<JobConnection> Connections::outward(const std::set<pid_t> &may_close) const {
  std::vector<JobConnection> all;
  auto add = [&](const InetSocket &s, bool held, bool closable, std::string owner) {
    all.push_back({s.local, s.remote, static_cast<u8>(s.state), held, closable, std::move(owner)});
  };
  for (const Held &h : held_) {
    if (h.udp || h.own_namespace || !h.socket.connected()) continue;
    const InetSocket *other = other_end(h.socket);
    if (!other || !inside_.contains(other->inode))
      add(h.socket, true, may_close.contains(h.pid), h.owner());
  }
  for (const InetSocket &s : table_)
    if (s.inode == 0 && s.connected() && !is_closed(s)) add(s, false, false, "");
  return all;
}

// Sockets in the program's own network namespace cannot collide with those of other programs at a
// restore.
std::vector<manifest::Socket> Connections::describe() const {
  std::vector<manifest::Socket> list;
  for (const Held &h : held_) {
    const InetSocket &s = h.socket;
    if (h.own_namespace || s.local.port == 0) continue;
    bool connected = !h.udp && s.connected();
    list.push_back({h.udp ? InetProtocol::Udp : InetProtocol::Tcp, s.v6, s.local,
                    connected ? std::optional(s.remote) : std::nullopt});
  }
  return list;
}

}  // namespace ckpt::tools
