// SPDX-License-Identifier: Apache-2.0
#include "remote/transport/address.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <charconv>
#include <memory>

#include "common/base/clock.h"
#include "common/ipc/local_port.h"
#include "common/ipc/unix_socket.h"
#include "remote/transport/stream.h"

namespace ckpt::remote {
namespace {

struct FreeList {
  void operator()(addrinfo *list) const { ::freeaddrinfo(list); }
};
using AddressList = std::unique_ptr<addrinfo, FreeList>;

Result<AddressList> look_up(const Address &a, int flags) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = flags;
  addrinfo *list = nullptr;
  if (int error = ::getaddrinfo(a.host.c_str(), std::to_string(a.port).c_str(), &hints, &list))
    return fail("cannot find the node \"{}\": {}", a.host, ::gai_strerror(error));
  return AddressList(list);
}

Result<UniqueFd> connect_one(const addrinfo &to, Clock::time_point deadline) {
  UniqueFd fd(::socket(to.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) return fail_errno("cannot create a TCP socket");
  share_local_port(fd.get());
  if (::connect(fd.get(), to.ai_addr, to.ai_addrlen) < 0) {
    if (errno != EINPROGRESS) return fail("{}", std::strerror(errno));
    CKPT_CHECK(wait_for_socket(fd.get(), POLLOUT, deadline));
    int error = 0;
    socklen_t size = sizeof error;
    ::getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    if (error) return fail("{}", std::strerror(error));
  }
  set_up_tcp(fd.get());
  return fd;
}

Failure no_connection(const Address &a, const std::string &why) {
  return fail_with_hint(fmt::format("cannot connect to ckpt-devd at {}: {}", a.text(), why),
                        a.path.empty() ? "start ckpt-devd with --listen on that node, and look at "
                                         "firewalls in between"
                                       : "start ckpt-devd on this node");
}

}  // namespace

bool is_ip_address(const std::string &host) {
  unsigned char buffer[sizeof(in6_addr)];
  return ::inet_pton(AF_INET, host.c_str(), buffer) == 1 ||
         ::inet_pton(AF_INET6, host.c_str(), buffer) == 1;
}

Result<Address> Address::parse(const std::string &text) {
  Address a;
  if (text.starts_with('/')) {
    a.path = text;
    return a;
  }
  bool bracketed = text.starts_with('[');
  size_t end = bracketed ? text.find(']') : text.find(':');
  a.host = text.substr(bracketed, bracketed ? end - 1 : end);
  size_t colon = end == std::string::npos ? end : text.find(':', end);
  std::string digits = colon == std::string::npos ? "" : text.substr(colon + 1);
  bool sound = !a.host.empty() && (!bracketed || end != std::string::npos);
  if (colon != std::string::npos) {
    auto [last, error] = std::from_chars(digits.data(), digits.data() + digits.size(), a.port);
    sound = sound && error == std::errc{} && last == digits.data() + digits.size();
  }
  if (sound) return a;
  return fail_with_hint(fmt::format("\"{}\" names no ckpt-devd", text),
                        "write HOST, HOST:PORT, [IPV6]:PORT, or the path of its UNIX socket");
}

std::string Address::text() const {
  if (!path.empty()) return path;
  return host.find(':') == std::string::npos ? fmt::format("{}:{}", host, port)
                                             : fmt::format("[{}]:{}", host, port);
}

Result<UniqueFd> connect_to(const Address &a, Clock::time_point deadline) {
  if (!a.path.empty()) {
    Result<UniqueFd> fd = connect_unix(a.path);
    return fd ? std::move(fd) : no_connection(a, fd.error().what);
  }
  CKPT_TRY(AddressList list, look_up(a, 0));
  std::string why = "it has no address";
  for (const addrinfo *i = list.get(); i; i = i->ai_next) {
    Result<UniqueFd> fd = connect_one(*i, deadline);
    if (fd) return fd;
    why = fd.error().what;
  }
  return no_connection(a, why);
}

Result<UniqueFd> listen_at(const Address &a) {
  CKPT_TRY(AddressList list, look_up(a, AI_PASSIVE));
  UniqueFd fd(::socket(list->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd) return fail_errno("cannot create a TCP socket");
  int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (::bind(fd.get(), list->ai_addr, list->ai_addrlen) < 0 || ::listen(fd.get(), 256) < 0)
    return fail_errno("cannot listen at {}", a.text());
  return fd;
}

// bind(2) of a path fails while a file has that name. Only a socket without a listener is removed.
Result<UniqueFd> listen_at_path(const std::string &path) {
  struct stat st {};
  if (::lstat(path.c_str(), &st) == 0) {
    if (!S_ISSOCK(st.st_mode))
      return fail_with_hint(fmt::format("{} exists and is not a socket", path),
                            "remove it, or name another one with --socket");
    if (connect_unix(path))
      return fail_with_hint(fmt::format("another ckpt-devd listens on {}", path),
                            "end it, or start this one with another --socket");
    ::unlink(path.c_str());
  }
  CKPT_TRY(UniqueFd fd, listen_unix(path));
  if (::chmod(path.c_str(), 0666) < 0) return fail_errno("cannot chmod {}", path);
  return fd;
}

void set_up_tcp(int socket) {
  auto set = [socket](int level, int name, int value) {
    ::setsockopt(socket, level, name, &value, sizeof value);
  };
  constexpr int kInterval = 5;  // four times: kSilence
  set(IPPROTO_TCP, TCP_NODELAY, 1);
  set(SOL_SOCKET, SO_KEEPALIVE, 1);
  set(IPPROTO_TCP, TCP_KEEPIDLE, kInterval);
  set(IPPROTO_TCP, TCP_KEEPINTVL, kInterval);
  set(IPPROTO_TCP, TCP_KEEPCNT, 3);
}

}  // namespace ckpt::remote
