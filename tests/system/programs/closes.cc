// SPDX-License-Identifier: Apache-2.0
//
// A program that closes in its `before` callback what no image can hold, and opens it again in
// `after` (ckpt.h):
//   closes open PATH             a file, for example a device
//   closes connect ADDRESS PORT  a TCP connection; its other end sends nothing
//   closes accept PORT           the connection that it accepts; the listening socket stays open
// Prints "open N" when it has opened it for the Nth time. A file "keep" makes `before` close
// nothing.
#include <arpa/inet.h>
#include <ckpt/ckpt.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>

static std::function<int()> open_it;
static int opened = -1, times = 0;

[[noreturn]] static void fail(const char *what) {
  perror(what);
  exit(1);
}

static void open_again() {
  opened = open_it();
  if (opened < 0) fail("open");
  dprintf(1, "open %d\n", ++times);
}

static int before(void *, const char **) {
  if (access("keep", F_OK) != 0) close(opened);
  return 0;
}

static void after(void *, int) {
  if (access("keep", F_OK) != 0) open_again();
}

static int socket_at(const char *address, const char *port, bool listening) {
  int fd = socket(AF_INET, SOCK_STREAM, 0), on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in a{};
  a.sin_family = AF_INET;
  a.sin_port = htons(static_cast<unsigned short>(atoi(port)));
  inet_pton(AF_INET, address, &a.sin_addr);
  const auto *any = reinterpret_cast<sockaddr *>(&a);
  if ((listening ? bind(fd, any, sizeof a) : connect(fd, any, sizeof a)) < 0) fail("socket");
  if (listening) listen(fd, 5);
  return fd;
}

int main(int, char **argv) {
  int listener = -1;
  if (strcmp(argv[1], "open") == 0)
    open_it = [=] { return open(argv[2], O_RDWR); };
  else if (strcmp(argv[1], "connect") == 0)
    open_it = [=] { return socket_at(argv[2], argv[3], false); };
  else
    listener = socket_at("0.0.0.0", argv[2], true);
  if (listener >= 0) {
    dprintf(1, "listening\n");
    open_it = [=] { return accept(listener, nullptr, nullptr); };
  }
  open_again();
  if (ckpt_on_checkpoint(before, after, nullptr) < 0) {
    fprintf(stderr, "%s\n", ckpt_last_error());
    return 96;
  }
  while (access("finish", F_OK) != 0) usleep(20'000);
  return 7;
}
