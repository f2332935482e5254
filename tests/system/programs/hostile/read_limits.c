// SPDX-License-Identifier: Apache-2.0
//
// Preloaded into CRIU where root lacks CAP_SYS_RESOURCE, as in many containers: CRIU then cannot
// read the limits of another user's process by prlimit(2), although /proc shows them. Reads only.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>

// The lines of /proc/PID/limits, by the number of the limit (asm-generic/resource.h).
static const char *const kNames[] = {
    "Max cpu time",       "Max file size",     "Max data size",         "Max stack size",
    "Max core file size", "Max resident set",  "Max processes",         "Max open files",
    "Max locked memory",  "Max address space", "Max file locks",        "Max pending signals",
    "Max msgqueue size",  "Max nice priority", "Max realtime priority", "Max realtime timeout"};

static rlim64_t value(const char *word) {
  return strcmp(word, "unlimited") == 0 ? RLIM64_INFINITY : strtoull(word, NULL, 10);
}

int prlimit64(pid_t pid, enum __rlimit_resource which, const struct rlimit64 *new_limit,
              struct rlimit64 *old) {
  int (*real)(pid_t, int, const struct rlimit64 *, struct rlimit64 *) =
      dlsym(RTLD_NEXT, "prlimit64");
  int done = real(pid, which, new_limit, old);
  if (done == 0 || errno != EPERM || new_limit || !old || (unsigned)which > 15) return done;
  char path[64], line[256], soft[32], hard[32];
  snprintf(path, sizeof path, "/proc/%d/limits", pid);
  FILE *f = fopen(path, "r");
  while (f && fgets(line, sizeof line, f)) {
    size_t n = strlen(kNames[which]);
    if (strncmp(line, kNames[which], n) != 0 || sscanf(line + n, "%31s %31s", soft, hard) != 2)
      continue;
    old->rlim_cur = value(soft);
    old->rlim_max = value(hard);
    done = 0;
  }
  if (f) fclose(f);
  return done;
}

// CRIU calls prlimit(2) this way too.
long syscall(long number, ...) {
  long a[6];
  va_list list;
  va_start(list, number);
  for (int i = 0; i < 6; i++) a[i] = va_arg(list, long);
  va_end(list);
  if (number == SYS_prlimit64)
    return prlimit64((pid_t)a[0], (enum __rlimit_resource)a[1], (const struct rlimit64 *)a[2],
                     (struct rlimit64 *)a[3]);
  long (*real)(long, ...) = dlsym(RTLD_NEXT, "syscall");
  return real(number, a[0], a[1], a[2], a[3], a[4], a[5]);
}
