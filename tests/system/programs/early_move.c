// SPDX-License-Identifier: Apache-2.0
//
// LD_PRELOAD: starts the CUDA driver before main(), and waits until a test has moved the program. So
// any program makes all of its calls on the device to which it was moved.
//
//   EARLY_MOVE=FILE   FILE.ready appears, and main() begins when FILE has disappeared
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

__attribute__((constructor)) static void wait_for_move(void) {
  const char *file = getenv("EARLY_MOVE");
  if (!file) return;
  void *driver = dlopen("libcuda.so.1", RTLD_NOW);
  int (*start)(unsigned) = driver ? (int (*)(unsigned))dlsym(driver, "cuInit") : NULL;
  if (!start || start(0) != 0) {
    fputs("early_move: the CUDA driver does not start\n", stderr);
    _exit(99);
  }
  char ready[4096];
  snprintf(ready, sizeof ready, "%s.ready", file);
  close(open(ready, O_CREAT | O_WRONLY, 0600));
  while (access(file, F_OK) == 0) usleep(2000);
}
