// SPDX-License-Identifier: Apache-2.0
// Namespaces of the program's own. A PID or time namespace holds only later children.
#include "feature.h"

#include <sys/mount.h>
#include <sys/shm.h>

#ifndef CLONE_NEWTIME
#define CLONE_NEWTIME 0x80
#endif

static void uts(void) {
  NEED(unshare(CLONE_NEWUTS) == 0);
  CHECK(sethostname("inside", 6) == 0);
  checkpoint_here();
  char host[32] = "";
  CHECK(gethostname(host, sizeof host) == 0 && strcmp(host, "inside") == 0);
}
static void ipc(void) {
  NEED(unshare(CLONE_NEWIPC) == 0);
  int id = shmget(4711, 65536, IPC_CREAT | 0600);
  CHECK(id >= 0);
  char *p = shmat(id, NULL, 0);
  fill(p, 65536, 1);
  checkpoint_here();
  CHECK(filled(p, 65536, 1) && shmget(4711, 65536, 0600) == id);
}
static void net(void) {
  NEED(unshare(CLONE_NEWNET) == 0);
  checkpoint_here();
  char text[4096] = "";
  CHECK(read(open("/proc/net/dev", O_RDONLY), text, sizeof text - 1) > 0 && strstr(text, "lo:") && !strstr(text, "eth"));
}
// Executed and entered again inside: CRIU does not dump a process that uses mounts of two namespaces.
static void mounts(void) {
  char folder[4096];
  NEED(unshare(CLONE_NEWNS) == 0 && mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0);
  CHECK(getcwd(folder, sizeof folder) && chdir(folder) == 0);
  for (int fd = 0; fd < 3; fd++) dup2(open("/dev/null", O_RDWR), fd);
  execl(program_invocation_name, program_invocation_name, "mounted", NULL);
}
static void mounted(void) {
  CHECK(mkdir("mounted", 0700) == 0 && mount("mine", "mounted", "tmpfs", 0, NULL) == 0);
  int fd = open("mounted/file", O_RDWR | O_CREAT, 0600);
  CHECK(write(fd, "inside", 6) == 6);
  checkpoint_here();
  char text[8];
  CHECK(pread(fd, text, 6, 0) == 6 && memcmp(text, "inside", 6) == 0 && access("mounted/file", F_OK) == 0);
}
static void user(void) {
  NEED(unshare(CLONE_NEWUSER) == 0);
  checkpoint_here();
  CHECK(getuid() == 65534);
}
static void mapped_user(void) {
  NEED(unshare(CLONE_NEWUSER) == 0);
  int fd = open("/proc/self/uid_map", O_WRONLY);
  NEED(write(fd, "0 0 1", 5) == 5);
  close(fd);
  checkpoint_here();
  CHECK(getuid() == 0);
}
static void child_in(int flag) {
  NEED(unshare(flag) == 0);
  pid_t child = fork();
  if (child == 0) {
    while (access("child", F_OK) != 0) nap(5);
    _exit(getpid() == 1 ? 1 : 2);
  }
  checkpoint_here();
  write_file("child", "");
  int status;
  CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == (flag == CLONE_NEWPID ? 1 : 2));
}
static void pid(void) { child_in(CLONE_NEWPID); }
static void time_offset(void) { child_in(CLONE_NEWTIME); }
static void cgroup(void) {
  NEED(unshare(CLONE_NEWCGROUP) == 0);
  checkpoint_here();
}

FEATURES({"uts", uts}, {"ipc", ipc}, {"net", net}, {"mount", mounts}, {"mounted", mounted}, {"user", user}, {"mapped_user", mapped_user},
         {"pid", pid}, {"time", time_offset}, {"cgroup", cgroup})
