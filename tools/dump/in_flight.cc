// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/in_flight.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <array>

#include "common/base/unique_fd.h"

namespace ckpt::tools {
namespace {

bool is_unix_socket(int fd) {
  int domain = 0;
  socklen_t size = sizeof domain;
  return ::getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) == 0 && domain == AF_UNIX;
}

void add_pipe(int fd, std::set<u64> &inodes) {
  UniqueFd received(fd);
  struct stat st {};
  if (::fstat(fd, &st) == 0 && S_ISFIFO(st.st_mode)) inodes.insert(st.st_ino);
}

// The kernel allows 253 descriptors in a message (SCM_MAX_FD).
struct Control {
  alignas(cmsghdr) std::array<char, CMSG_SPACE(253 * sizeof(int))> bytes;
};

// Looks at the next message from the peek offset on. False: there is none.
bool peek_message(int socket, std::set<u64> &inodes) {
  std::array<char, 65536> data;
  static thread_local Control control;
  iovec part{data.data(), data.size()};
  msghdr m{};
  m.msg_iov = &part;
  m.msg_iovlen = 1;
  m.msg_control = control.bytes.data();
  m.msg_controllen = control.bytes.size();
  if (::recvmsg(socket, &m, MSG_PEEK | MSG_DONTWAIT | MSG_CMSG_CLOEXEC) <= 0) return false;
  for (cmsghdr *c = CMSG_FIRSTHDR(&m); c; c = CMSG_NXTHDR(&m, c)) {
    if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS) continue;
    const auto *fds = reinterpret_cast<const int *>(CMSG_DATA(c));
    for (size_t i = 0; i < (c->cmsg_len - CMSG_LEN(0)) / sizeof(int); i++) add_pipe(fds[i], inodes);
  }
  return true;
}

// With a peek offset, each look starts where the last one has ended (socket(7), SO_PEEK_OFF).
void look_into(int socket, std::set<u64> &inodes) {
  int had = -1, from_start = 0;
  socklen_t size = sizeof had;
  if (::getsockopt(socket, SOL_SOCKET, SO_PEEK_OFF, &had, &size) < 0 ||
      ::setsockopt(socket, SOL_SOCKET, SO_PEEK_OFF, &from_start, sizeof from_start) < 0)
    return;
  while (peek_message(socket, inodes)) {
  }
  ::setsockopt(socket, SOL_SOCKET, SO_PEEK_OFF, &had, sizeof had);
}

}  // namespace

std::set<u64> pipes_in_flight(const DescriptorTable &table) {
  std::set<u64> inodes, seen;
  for (const auto &[pid, descriptors] : table)
    for (const Descriptor &d : descriptors) {
      if (d.kind != Descriptor::Kind::Socket || !seen.insert(d.inode).second) continue;
      if (UniqueFd socket = duplicate_descriptor(pid, d.fd); socket && is_unix_socket(socket.get()))
        look_into(socket.get(), inodes);
    }
  return inodes;
}

}  // namespace ckpt::tools
