// SPDX-License-Identifier: Apache-2.0
//
// library [IMAGE]
//
// A program with an agent but without a device: counts, and prints the calls of its callbacks
// (ckpt.h). A file "refuse" makes the first callback refuse, a file "hold" makes it wait. With
// IMAGE the program checkpoints itself into that image at its tenth step. It ends after 100
// steps, or later, when there is no file "stay" any more.
#include <ckpt/ckpt.h>
#include <time.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

static int before(void *, const char **reason) {
  if (access("refuse", F_OK) == 0) {
    *reason = "not today";
    return 1;
  }
  dprintf(1, "before\n");
  while (access("hold", F_OK) == 0) usleep(5000);
  return 0;
}

static void after(void *, int outcome) { dprintf(1, "after %d\n", outcome); }

int main(int argc, char **argv) {
  if (ckpt_on_checkpoint(before, after, nullptr) < 0) {
    fprintf(stderr, "%s\n", ckpt_last_error());
    return 96;
  }
  for (int step = 0; step < 100 || access("stay", F_OK) == 0; step++) {
    dprintf(1, "%d\n", step);
    if (argc > 1 && step == 10) {
      int r = ckpt_checkpoint(argv[1], 0, nullptr);
      dprintf(1, "checkpoint %d %s\n", r, r < 0 ? ckpt_last_error() : "");
    }
    timespec t{0, 20'000'000};
    nanosleep(&t, nullptr);
  }
  return 6;
}
