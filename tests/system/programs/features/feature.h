// SPDX-License-Identifier: Apache-2.0
//
// A program of the table of process features (docs/PROCESSES.md). It is run as `FAMILY FEATURE` in
// a folder of its own: it makes the feature, says that it is ready, waits until it has been dumped
// and restored, and then checks that what it had is still there. Its answer is the file "result".
#pragma once
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

typedef struct {
  const char *name;
  void (*run)(void);
} Feature;

static int start_folder = -1;  // some features change or remove the working folder

static void write_file(const char *name, const char *text) {
  char partial[64];
  snprintf(partial, sizeof partial, "%s.new", name);
  int fd = openat(start_folder, partial, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (fd < 0 || write(fd, text, strlen(text)) < 0) _exit(3);
  close(fd);
  renameat(start_folder, partial, start_folder, name);
}

__attribute__((noreturn, unused)) static void answer(const char *kind, const char *format,
                                                     va_list args) {
  char text[512];
  int n = snprintf(text, sizeof text, "%s", kind);
  vsnprintf(text + n, sizeof text - (size_t)n, format, args);
  write_file("result", text);
  exit(kind[0] == 'o' ? 0 : 1);
}

// The feature did not survive.
__attribute__((noreturn, unused, format(printf, 1, 2))) static void fail(const char *format, ...) {
  va_list args;
  va_start(args, format);
  answer("fail: ", format, args);
}

// This machine does not have the feature.
__attribute__((noreturn, unused, format(printf, 1, 2))) static void not_here(const char *format,
                                                                             ...) {
  va_list args;
  va_start(args, format);
  answer("not here: ", format, args);
}

#define CHECK(condition)                                                               \
  do {                                                                                 \
    if (!(condition)) fail("line %d: %s (%s)", __LINE__, #condition, strerror(errno)); \
  } while (0)
#define NEED(condition)                                                \
  do {                                                                 \
    if (!(condition)) not_here("%s: %s", #condition, strerror(errno)); \
  } while (0)

static void nap(long milliseconds) {
  struct timespec left = {milliseconds / 1000, milliseconds % 1000 * 1000000};
  while (nanosleep(&left, &left) < 0 && errno == EINTR) {
  }
}

// Says that the feature is there, and waits until the program has been dumped and restored. If it
// runs on after the dump, it calls `change` before it is killed.
__attribute__((unused)) static void checkpoint_here_and_change(void (*change)(void)) {
  write_file("ready", "");
  while (faccessat(start_folder, "go", F_OK, 0) != 0) {
    if (change && faccessat(start_folder, "change", F_OK, 0) == 0) {
      change();
      write_file("changed", "");
      change = NULL;
    }
    nap(10);
  }
}
__attribute__((unused)) static void checkpoint_here(void) { checkpoint_here_and_change(NULL); }

__attribute__((unused)) static void fill(void *memory, size_t bytes, unsigned seed) {
  for (size_t i = 0; i < bytes; i++)
    ((unsigned char *)memory)[i] = (unsigned char)(i * 31 + (i >> 8) + seed);
}

__attribute__((unused)) static int filled(const void *memory, size_t bytes, unsigned seed) {
  for (size_t i = 0; i < bytes; i++)
    if (((const unsigned char *)memory)[i] != (unsigned char)(i * 31 + (i >> 8) + seed)) return 0;
  return 1;
}

// A child that runs `f` until it is killed with the program.
__attribute__((unused)) static pid_t child_of(void (*f)(void)) {
  pid_t pid = fork();
  if (pid != 0) return pid;
  f();
  _exit(0);
}

static int run_feature(int argc, char **argv, const Feature *table) {
  start_folder = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
  for (; argc > 1 && table->name; table++)
    if (strcmp(table->name, argv[1]) == 0) {
      table->run();
      write_file("result", "ok");
      return 0;
    }
  fprintf(stderr, "there is no such feature\n");
  return 2;
}

#define FEATURES(...)                                           \
  int main(int argc, char **argv) {                             \
    static const Feature table[] = {__VA_ARGS__, {NULL, NULL}}; \
    return run_feature(argc, argv, table);                      \
  }
