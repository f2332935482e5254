// SPDX-License-Identifier: Apache-2.0
#include "tools/job/tcp.h"

#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <doctest/doctest.h>

#include <fstream>

using namespace ckpt;
using namespace ckpt::tools;

namespace {

constexpr int kNotAllowed = 77;

// The end of `body` in a network namespace of its own, in which the kernel chooses `ports`.
int in_own_network(const char *ports, int (*body)()) {
  pid_t child = ::fork();
  if (child == 0) {
    if (::unshare(CLONE_NEWUSER | CLONE_NEWNET) < 0) ::_exit(kNotAllowed);
    std::ofstream range("/proc/sys/net/ipv4/ip_local_port_range");
    range << ports << std::flush;
    ::_exit(range ? body() : kNotAllowed);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

u16 local_port(int socket) {
  sockaddr_in a{};
  socklen_t size = sizeof a;
  ::getsockname(socket, reinterpret_cast<sockaddr *>(&a), &size);
  return ntohs(a.sin_port);
}

bool can_listen_on(u16 port) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(port);
  return ::bind(fd.get(), reinterpret_cast<sockaddr *>(&a), sizeof a) == 0 &&
         ::listen(fd.get(), 1) == 0;
}

}  // namespace

TEST_CASE("the port is above those that the kernel chooses, and none that a program needs") {
  int code = in_own_network("2000 3000", [] {
    auto first = listen_tcp({3001, 3002}), second = listen_tcp({});
    bool right = first && second && first->second == 3003 && second->second == 3001;
    auto third = listen_tcp({3002});  // 3001 is taken
    return right && third && third->second == 3004 ? 0 : 1;
  });
  if (code == kNotAllowed) MESSAGE("not run: namespaces are not allowed here");
  CHECK((code == 0 || code == kNotAllowed));
}

TEST_CASE("if the kernel chooses all high ports, it chooses one that no program needs") {
  int code = in_own_network("65532 65535", [] {
    auto first = listen_tcp({65532, 65533, 65535});
    auto none = listen_tcp({65532, 65533, 65535});
    return first && first->second == 65534 && !none ? 0 : 1;
  });
  if (code == kNotAllowed) MESSAGE("not run: namespaces are not allowed here");
  CHECK((code == 0 || code == kNotAllowed));
}

TEST_CASE("a program can listen on the port of a connection that the tools have made") {
  auto listening = listen_tcp({});
  REQUIRE(listening);
  auto connection = connect_tcp("127.0.0.1", listening->second, std::chrono::seconds(5));
  REQUIRE(connection);
  CHECK(can_listen_on(local_port(connection->get())));
}
