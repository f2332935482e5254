// SPDX-License-Identifier: Apache-2.0
//
// A program with one right that its user has not, for each field of an identity. Installed setuid by
// root, it changes one field, gives all others up, and sleeps:
//
//   rights FIELD [COMMAND…]    with a command: executes it instead
#define _GNU_SOURCE
#include <grp.h>
#include <linux/capability.h>
#include <linux/securebits.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/fsuid.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MUST(what)                 \
  do {                             \
    if (!(what)) {                 \
      perror(#what);               \
      exit(1);                     \
    }                              \
  } while (0)

enum { kGid = 12345 };
static uid_t user;
static gid_t group;

// This thread's alone: the C library's functions change all threads.
static int own_gids(gid_t real, gid_t effective, gid_t saved) {
  return (int)syscall(SYS_setresgid, real, effective, saved);
}

static int capabilities(unsigned effective, unsigned permitted, unsigned inheritable) {
  struct __user_cap_header_struct header = {_LINUX_CAPABILITY_VERSION_3, 0};
  struct __user_cap_data_struct data[2] = {{effective, permitted, inheritable}, {0, 0, 0}};
  return (int)syscall(SYS_capset, &header, data);
}

static int is(const char *field, const char *name) { return strcmp(field, name) == 0; }

static void *thread_with_gid(void *changed) {
  MUST(own_gids(kGid, kGid, kGid) == 0);
  pthread_barrier_wait(changed);
  for (;;) pause();
}

static void become_user(void) { MUST(setresuid(user, user, user) == 0); }

static void change(const char *field) {
  unsigned kill = 1u << CAP_KILL;
  gid_t gids[3] = {group, group, group}, more[] = {kGid};
  if (is(field, "real_gid")) gids[0] = kGid;
  if (is(field, "effective_gid")) gids[1] = kGid;
  if (is(field, "saved_gid")) gids[2] = kGid;
  if (is(field, "group")) MUST(setgroups(1, more) == 0);
  MUST(setresgid(gids[0], gids[1], gids[2]) == 0);
  if (is(field, "file_system_gid")) setfsgid(kGid);
  if (is(field, "securebits"))
    MUST(prctl(PR_SET_SECUREBITS, SECBIT_NO_CAP_AMBIENT_RAISE) == 0);
  if (is(field, "thread_gid")) {
    static pthread_barrier_t changed;  // before all threads give up root's rights
    pthread_t thread;
    MUST(pthread_barrier_init(&changed, NULL, 2) == 0);
    MUST(pthread_create(&thread, NULL, thread_with_gid, &changed) == 0);
    pthread_barrier_wait(&changed);
  }
  if (is(field, "saved_uid")) {
    MUST(setresuid(user, user, 0) == 0);
  } else if (is(field, "permitted") || is(field, "ambient")) {
    MUST(prctl(PR_SET_KEEPCAPS, 1) == 0);
    become_user();
    MUST(capabilities(0, kill, kill) == 0);
    if (is(field, "ambient")) MUST(prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_RAISE, CAP_KILL, 0, 0) == 0);
  } else if (is(field, "inheritable")) {
    MUST(prctl(PR_SET_KEEPCAPS, 1) == 0);
    become_user();
    MUST(capabilities(0, 0, kill) == 0);
  } else {
    become_user();
  }
  if (is(field, "user_namespace")) MUST(unshare(CLONE_NEWUSER) == 0);
}

int main(int argc, char **argv) {
  (void)argc;
  user = getuid();
  group = getgid();
  MUST(setresuid(0, 0, 0) == 0);
  change(argv[1]);
  MUST(prctl(PR_SET_DUMPABLE, 1) == 0);
  if (argv[2]) MUST(execvp(argv[2], argv + 2) == 0);
  for (;;) pause();
}
