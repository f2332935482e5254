// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/unread_datagrams.h"

#include <linux/sock_diag.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

#include <array>
#include <optional>

#include "common/base/unique_fd.h"

namespace ckpt::tools {
namespace {

int option(int socket, int name) {
  int value = -1;
  socklen_t size = sizeof value;
  ::getsockopt(socket, SOL_SOCKET, name, &value, &size);
  return value;
}

// Of the sockets whose queue CRIU does not save.
std::string kind_without_queue(int socket) {
  int family = option(socket, SO_DOMAIN), type = option(socket, SO_TYPE);
  if (family == AF_PACKET) return "packet";
  if (family != AF_INET && family != AF_INET6) return {};
  if (type == SOCK_RAW) return "raw";
  return type == SOCK_DGRAM ? "UDP" : "";
}

// Reading would take a pending error of the network away from the program.
bool has_unread(int socket) {
  std::array<u32, SK_MEMINFO_VARS> memory{};
  socklen_t size = sizeof memory;
  return ::getsockopt(socket, SOL_SOCKET, SO_MEMINFO, memory.data(), &size) == 0 &&
         memory[SK_MEMINFO_RMEM_ALLOC] > 0;
}

bool is_open_to_all_senders(int socket) {
  sockaddr_un peer{};
  socklen_t size = sizeof peer;
  return option(socket, SO_DOMAIN) == AF_UNIX && option(socket, SO_TYPE) == SOCK_DGRAM &&
         ::getpeername(socket, reinterpret_cast<sockaddr *>(&peer), &size) != 0;
}

// Whether the next message from the peek offset on has a sender with a name. Nothing: there is
// none.
std::optional<bool> next_has_sender(int socket) {
  char byte = 0;
  iovec part{&byte, 1};
  sockaddr_un sender{};
  msghdr m{};
  m.msg_name = &sender;
  m.msg_namelen = sizeof sender;
  m.msg_iov = &part;
  m.msg_iovlen = 1;
  // MSG_TRUNC: the peek offset moves by the whole message.
  if (::recvmsg(socket, &m, MSG_PEEK | MSG_DONTWAIT | MSG_TRUNC) < 0) return std::nullopt;
  return m.msg_namelen > sizeof(sa_family_t);
}

bool has_message_of_named_sender(int socket) {
  int had = -1, from_start = 0;
  socklen_t size = sizeof had;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEEK_OFF, &had, &size) < 0 ||
      ::setsockopt(socket, SOL_SOCKET, SO_PEEK_OFF, &from_start, sizeof from_start) < 0)
    return false;
  std::optional<bool> named = next_has_sender(socket);
  while (named && !*named) named = next_has_sender(socket);
  ::setsockopt(socket, SOL_SOCKET, SO_PEEK_OFF, &had, sizeof had);
  return named.value_or(false);
}

template <class F>
void for_each_socket(const Target &target, const DescriptorTable &table, F f) {
  std::set<u64> seen;
  for (const Process &p : target.processes)
    if (auto descriptors = table.find(p.pid); descriptors != table.end())
      for (const Descriptor &d : descriptors->second)
        if (d.kind == Descriptor::Kind::Socket && seen.insert(d.inode).second)
          if (UniqueFd socket = duplicate_descriptor(p.pid, d.fd)) f(p, d.fd, socket.get());
}

}  // namespace

void remark_unread_datagrams(const Target &target, const DescriptorTable &table,
                             std::vector<std::string> &remarks) {
  for_each_socket(target, table, [&](const Process &p, int fd, int socket) {
    std::string kind = kind_without_queue(socket);
    if (!kind.empty() && has_unread(socket))
      remarks.push_back(
          fmt::format("{}: descriptor {} ({}) has unread datagrams, which a restored program does "
                      "not get: they count as lost in the network",
                      name_of(p), fd, kind));
  });
}

void remark_datagrams(const Target &target, const DescriptorTable &table,
                      std::vector<std::string> &remarks) {
  remark_unread_datagrams(target, table, remarks);
  for_each_socket(target, table, [&](const Process &p, int fd, int socket) {
    if (is_open_to_all_senders(socket) && has_message_of_named_sender(socket))
      remarks.push_back(fmt::format(
          "{}: descriptor {} (a UNIX socket) has unread datagrams; a restored program gets them "
          "without the names of their senders, and cannot answer them",
          name_of(p), fd));
  });
}

}  // namespace ckpt::tools
