// SPDX-License-Identifier: Apache-2.0
//
// A tree of processes with shared memory. Each child counts and writes into a pipe to the parent.
// One child is in a session of its own, another one has a child of its own.
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

static void pause_a_little() {
  timespec t{0, 20'000'000};
  nanosleep(&t, nullptr);
}

int main(int argc, char **argv) {
  const int rounds = argc > 1 ? atoi(argv[1]) : 50;
  constexpr int kChildren = 3;
  void *p = mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  auto *shared = new (p) std::atomic<long>(0);
  int ends[2];
  if (pipe(ends) < 0) return 1;
  for (int c = 0; c < kChildren; c++) {
    if (fork() != 0) continue;
    close(ends[0]);
    if (c == 1) setsid();
    if (c == 2 && fork() != 0) {
      wait(nullptr);
      return 0;
    }
    for (int r = 0; r < rounds; r++) {
      shared->fetch_add(1);
      if (write(ends[1], "x", 1) != 1) return 1;
      pause_a_little();
    }
    return 0;
  }
  close(ends[1]);
  long received = 0;
  for (char c; read(ends[0], &c, 1) == 1; received++)
    if (received % kChildren == 0) dprintf(1, "%ld\n", received / kChildren);
  while (wait(nullptr) > 0) {
  }
  bool right = received == static_cast<long>(kChildren) * rounds && shared->load() == received;
  dprintf(1, right ? "right\n" : "wrong\n");
  return right ? 0 : 97;
}
