// SPDX-License-Identifier: Apache-2.0
//
// counter STEPS [EXIT-CODE [MIB [MILLISECONDS]]]
//
// Prints the numbers 0, 1, 2, … and checks at each step that its memory has not changed. Pauses
// after each step, until a file "finish" appears in the current folder.
#include <time.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

static uint64_t mix(uint64_t x) {
  x ^= x >> 33;
  x *= 0xff51afd7ed558ccdULL;
  return x ^ (x >> 29);
}

int main(int argc, char **argv) {
  long steps = argc > 1 ? atol(argv[1]) : 100;
  int code = argc > 2 ? atoi(argv[2]) : 0;
  size_t words = (argc > 3 ? static_cast<size_t>(atol(argv[3])) : 1) << 17;
  long milliseconds = argc > 4 ? atol(argv[4]) : 20;
  std::vector<uint64_t> memory(words);
  for (size_t i = 0; i < words; i++) memory[i] = mix(i);
  uint64_t sum = 0;
  for (long step = 0; step < steps; step++) {
    size_t at = mix(static_cast<uint64_t>(step)) % words;
    if (memory[at] != mix(at)) {
      fprintf(stderr, "memory is damaged\n");
      return 99;
    }
    sum += memory[at];
    dprintf(1, "%ld\n", step);
    timespec t{milliseconds / 1000, milliseconds % 1000 * 1000000};
    if (access("finish", F_OK) != 0) nanosleep(&t, nullptr);
  }
  dprintf(1, "sum %016lx\n", static_cast<unsigned long>(sum));
  return code;
}
