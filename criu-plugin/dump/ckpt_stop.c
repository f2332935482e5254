/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ckpt_stop.so: the plugin of CRIU in dumps by ckpt-dump. A dump that fails after CRIU has stopped
 * the program would let it run again at once, and calls that waited would return EINTR: `tail -f`
 * ends by that. So the program is left stopped, as after a dump that succeeds; ckpt-dump has the
 * calls begin again, and continues it (tools/criu/interrupted_waits.h).
 *
 * CRIU calls exit() when its own code is out of the processes and their registers are restored, and
 * releases them next (cr_dump_finish() in criu/cr-dump.c of CRIU 4.2). A stop signal that is
 * pending then acts before the process runs any code of its own.
 *
 * No library is linked: the C library is that of CRIU, whatever its version. The interface is
 * explained in ckpt_plugin.c. CRIU refuses a dump if a plugin cannot be loaded.
 */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#include "criu-plugin/criu_interface.h"

enum { STATUS_SIZE = 4096 };

static int number_in(const char *text) {
  int n = 0;
  while (*text >= '0' && *text <= '9') n = n * 10 + (*text++ - '0');
  return n;
}

static int is_held_by_us(int proc, const char *pid) {
  char path[64] = "", text[STATUS_SIZE];
  int file = openat(proc, strcat(strncat(path, pid, 32), "/status"), O_RDONLY | O_CLOEXEC);
  long size = file < 0 ? 0 : read(file, text, sizeof text - 1);
  if (file >= 0) close(file);
  if (size <= 0) return 0;
  text[size] = '\0';
  const char *tracer = strstr(text, "\nTracerPid:\t");
  return tracer != NULL && number_in(tracer + strlen("\nTracerPid:\t")) == getpid();
}

static void stop_processes(void) {
  DIR *proc = opendir("/proc");
  if (proc == NULL) return;
  for (struct dirent *e; (e = readdir(proc)) != NULL;)
    if (number_in(e->d_name) > 0 && is_held_by_us(dirfd(proc), e->d_name))
      kill(number_in(e->d_name), SIGSTOP);
  closedir(proc);
}

static int start(int stage) {
  (void)stage;
  return 0;
}

static void leave(int stage, int result) {
  if (stage == STAGE_DUMP && result != 0) stop_processes();
}

__attribute__((visibility("default"))) struct plugin CR_PLUGIN_DESC = {
    .name = "ckpt_stop", .init = start, .exit = leave, .version = 0 << 16 | 2 << 8 | 0};
