// SPDX-License-Identifier: Apache-2.0
//
// Two programs that talk over TCP, of which each checks every byte that it gets:
//   pair serve ADDRESS PORT      accepts one connection, and prints "served N" at its end
//   pair talk ADDRESS PORT       sends messages until the file "finish" exists; prints each
//                                hundredth number, and at last "sent N"
// Message N is the number N and 60,000 bytes that follow from it; the answer to it is N + 1.
#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

using Number = std::uint64_t;
constexpr size_t kBytes = 60'000;

[[noreturn]] void fail(const char *what) {
  std::perror(what);
  std::exit(1);
}

bool transfer(int fd, void *data, size_t size, bool send) {
  auto *p = static_cast<char *>(data);
  while (size > 0) {
    ssize_t n = send ? ::send(fd, p, size, MSG_NOSIGNAL) : ::recv(fd, p, size, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) fail(send ? "send" : "recv");
    if (n == 0) return false;
    p += n;
    size -= static_cast<size_t>(n);
  }
  return true;
}

std::vector<unsigned char> contents(Number n) {
  std::vector<unsigned char> bytes(kBytes);
  for (size_t i = 0; i < kBytes; i++) bytes[i] = static_cast<unsigned char>(n * 31 + i * 7);
  return bytes;
}

void serve(int listener) {
  int fd = ::accept(listener, nullptr, nullptr);
  if (fd < 0) fail("accept");
  std::vector<unsigned char> got(kBytes);
  Number expected = 0;
  for (Number n; transfer(fd, &n, sizeof n, false); expected++) {
    transfer(fd, got.data(), kBytes, false);
    if (n != expected || got != contents(n)) fail("a message is wrong");
    Number answer = n + 1;
    transfer(fd, &answer, sizeof answer, true);
  }
  std::printf("served %llu\n", static_cast<unsigned long long>(expected));
}

void talk(int fd) {
  Number n = 0;
  for (; ::access("finish", F_OK) != 0; n++) {
    std::vector<unsigned char> bytes = contents(n);
    transfer(fd, &n, sizeof n, true);
    transfer(fd, bytes.data(), kBytes, true);
    Number answer = 0;
    if (!transfer(fd, &answer, sizeof answer, false) || answer != n + 1) fail("an answer is wrong");
    if (n % 100 == 0) std::printf("%llu\n", static_cast<unsigned long long>(n));
    std::fflush(stdout);
  }
  std::printf("sent %llu\n", static_cast<unsigned long long>(n));
}

int main(int, char **argv) {
  int fd = ::socket(AF_INET, SOCK_STREAM, 0), on = 1;
  ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(static_cast<std::uint16_t>(std::atoi(argv[3])));
  ::inet_pton(AF_INET, argv[2], &a.sin_addr);
  auto *address = reinterpret_cast<sockaddr *>(&a);
  if (std::strcmp(argv[1], "serve") == 0) {
    if (::bind(fd, address, sizeof a) < 0 || ::listen(fd, 1) < 0) fail("listen");
    std::puts("listening");
    std::fflush(stdout);
    serve(fd);
  } else {
    if (::connect(fd, address, sizeof a) < 0) fail("connect");
    talk(fd);
  }
  return 0;
}
