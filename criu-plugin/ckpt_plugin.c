/* SPDX-License-Identifier: GPL-2.0-only */
/*
 * ckpt_plugin.so: a plugin of CRIU (https://criu.org/Plugins), for dumps that a container engine
 * asks CRIU for. Before CRIU looks at a process tree, the programs of ckpt in it give their devices
 * back; after a restore, and after a dump whose programs go on, they get them again.
 *
 * CRIU loads it into its own process, so it is small and calls only CRIU and the C library. The
 * work is done by ckpt-criu-guard (tools/criu_guard/), a process that outlives CRIU: it learns that
 * the dump is over, also by the death of CRIU, from the end of the connection to it.
 *
 * What is declared here is CRIU's interface for plugins, of version 0.2 (CRIU 3.19 to 4.2; criu/
 * include/criu-plugin.h of its source defines it). CRIU refuses every dump, also those of programs
 * that have nothing to do with ckpt, if a plugin declares a later version or more hooks than it
 * knows, so the table of hooks ends behind the last one that is used here.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "criu-plugin/criu_interface.h"

enum { LEVEL_ERROR = 1 }; /* of CRIU's log */

extern int criu_get_image_dir(void);
/* Not in the interface, but plugins that come with CRIU use it. Without it: standard error. */
extern void print_on_level(unsigned level, const char *format, ...) __attribute__((weak));

/* What the guard finds. */
enum { GUARD_SOCKET = 3, GUARD_IMAGE = 4, GUARD_FIRST_FREE = 5 };
/* CRIU's alarm must not come while the guard cancels a suspend. */
enum { MARGIN_MS = 1000, ANSWER_MS = 500, CHECK_MS = 60000, MAX_TEXT = 8192 };

static int current_stage = -1;
static int guard = -1; /* the connection to the guard of this dump */
static int asked, checked;

static void say(const char *text) {
  if (print_on_level)
    print_on_level(LEVEL_ERROR, "ckpt: %s\n", text);
  else
    dprintf(STDERR_FILENO, "ckpt: %s\n", text);
}

/* Says why CRIU is to give up. */
static int refuse(const char *why) {
  say(why);
  return -1;
}

static long now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * 1000L + t.tv_nsec / 1000000;
}

/* How long a suspend may take: what CRIU's alarm (--timeout) leaves; 0: there is no alarm. */
static long limit_ms(void) {
  struct itimerval left;
  if (getitimer(ITIMER_REAL, &left) != 0) return 0;
  long ms = left.it_value.tv_sec * 1000L + left.it_value.tv_usec / 1000;
  if (ms == 0 && left.it_value.tv_usec == 0) return 0;
  return ms > 2 * MARGIN_MS ? ms - MARGIN_MS : MARGIN_MS;
}

/* Beside this file's folder in the build, or installed. */
static int find_guard(char *path, size_t size) {
  static const char *const places[] = {"../tools/ckpt-criu-guard", CKPT_GUARD_BELOW, NULL};
  Dl_info self;
  if (!dladdr((void *)&current_stage, &self)) return -1;
  const char *slash = strrchr(self.dli_fname, '/');
  int length = slash ? (int)(slash - self.dli_fname) : 1;
  for (const char *const *place = places; *place; place++) {
    int n = snprintf(path, size, "%.*s/%s", length, slash ? self.dli_fname : ".", *place);
    if (n > 0 && (size_t)n < size && access(path, X_OK) == 0) return 0;
  }
  return -1;
}

/*
 * In a grandchild of CRIU: CRIU waits for any child of its own, and an engine for the end of all
 * descriptors that it has given to CRIU.
 */
static void become_guard(char *const *arguments, int socket, int image) {
  sigset_t none;
  if (fork() != 0) _exit(0);
  setsid();
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, NULL);
  int high_socket = fcntl(socket, F_DUPFD, 64);
  int high_image = image < 0 ? -1 : fcntl(image, F_DUPFD, 64);
  int null = open("/dev/null", O_RDWR);
  if (high_socket < 0 || null < 0) _exit(127);
  for (int fd = 0; fd < GUARD_SOCKET; fd++) dup2(null, fd);
  dup2(high_socket, GUARD_SOCKET);
  if (high_image < 0 || dup2(high_image, GUARD_IMAGE) < 0) close(GUARD_IMAGE);
  syscall(SYS_close_range, GUARD_FIRST_FREE, ~0U, 0);
  execv(arguments[0], arguments);
  _exit(127);
}

/* Returns our end of the connection, or -1. */
static int start_guard(char *task, int pid, long limit) {
  static char path[4096];
  char root[16], most[24];
  char *arguments[] = {path, task, root, most, NULL};
  int ends[2];
  snprintf(root, sizeof root, "%d", pid);
  snprintf(most, sizeof most, "%ld", limit);
  if (find_guard(path, sizeof path) != 0)
    return refuse("ckpt-criu-guard is missing: install ckpt again");
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return refuse("no socket can be made");
  pid_t child = fork();
  if (child == 0) become_guard(arguments, ends[1], criu_get_image_dir());
  close(ends[1]);
  while (child > 0 && waitpid(child, NULL, 0) < 0 && errno == EINTR)
    ;
  if (child > 0) return ends[0];
  close(ends[0]);
  return refuse("no process can be started");
}

/* Signals of CRIU do not end the wait. */
static int wait_for_answer(int socket, long most) {
  struct pollfd from = {socket, POLLIN, 0};
  long end = now_ms() + most;
  for (;;) {
    long left = most == 0 ? -1 : end - now_ms();
    int n = most != 0 && left <= 0 ? 0 : poll(&from, 1, (int)left);
    if (n >= 0 || errno != EINTR) return n;
  }
}

static void leave_guard(void) {
  if (guard >= 0) close(guard);
  guard = -1;
}

/*
 * An answer is one message: '+' for success, '-' and why not, or '0' if there is nothing to guard.
 * `most`: 0 is without a limit.
 */
static int answer(long most) {
  char text[MAX_TEXT];
  int ready = wait_for_answer(guard, most);
  if (ready == 0) return refuse("ckpt-criu-guard has not answered in time");
  ssize_t n = ready < 0 ? -1 : recv(guard, text, sizeof text - 1, 0);
  if (n <= 0) return refuse("ckpt-criu-guard has ended without an answer");
  text[n] = '\0';
  if (text[0] == '-') return refuse(text + 1);
  if (text[0] == '0') leave_guard();
  return 0;
}

static int init(int stage) {
  current_stage = stage;
  asked = checked = 0;
  return 0;
}

static void leave(int stage, int result) {
  (void)stage;
  (void)result;
  leave_guard();
}

/*
 * -ENOTSUP lets CRIU ask other plugins, too. The first call is for the root of the tree, and none
 * of its processes is stopped yet: all of their programs are suspended now.
 */
static int pause_devices(int pid) {
  if (current_stage != STAGE_DUMP || asked) return -ENOTSUP;
  asked = 1;
  long limit = limit_ms();
  guard = start_guard("dump", pid, limit);
  if (guard >= 0 && answer(limit == 0 ? 0 : limit + ANSWER_MS) == 0) return -ENOTSUP;
  leave_guard();
  return -1;
}

/* All processes are stopped: a program may have started to use a device since. */
static int checkpoint_devices(int pid) {
  (void)pid;
  if (guard < 0 || checked) return -ENOTSUP;
  checked = 1;
  if (send(guard, "check", 5, MSG_NOSIGNAL) != 5) return refuse("ckpt-criu-guard has ended");
  return answer(CHECK_MS) == 0 ? -ENOTSUP : -1;
}

/* The processes are still stopped; the guard waits until CRIU has left them. */
static int resume_devices_late(int pid) {
  if (current_stage != STAGE_RESTORE || asked) return -ENOTSUP;
  asked = 1;
  int to_guard = start_guard("restore", pid, 0);
  if (to_guard >= 0) close(to_guard);
  return -ENOTSUP;
}

__attribute__((visibility("default"))) struct plugin CR_PLUGIN_DESC = {
    .name = "ckpt_plugin",
    .init = init,
    .exit = leave,
    .version = 0 << 16 | 2 << 8 | 0,
    .hooks_declared = HOOKS,
    .hooks = {[RESUME_DEVICES_LATE] = resume_devices_late,
              [PAUSE_DEVICES] = pause_devices,
              [CHECKPOINT_DEVICES] = checkpoint_devices},
};
