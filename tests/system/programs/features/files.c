// SPDX-License-Identifier: Apache-2.0
// Open files, their positions, locks and names.
#include "feature.h"

#include <sys/file.h>

static char text[64];

static int make(const char *name, const char *contents) {
  int fd = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
  CHECK(fd >= 0 && write(fd, contents, strlen(contents)) == (ssize_t)strlen(contents));
  return fd;
}

static const char *read_at(int fd, off_t offset) {
  memset(text, 0, sizeof text);
  CHECK(pread(fd, text, sizeof text - 1, offset) >= 0);
  return text;
}

static void position(void) {
  int fd = make("file", "0123456789"), copy = dup(fd);
  CHECK(lseek(fd, 4, SEEK_SET) == 4);
  checkpoint_here();
  CHECK(lseek(copy, 0, SEEK_CUR) == 4 && read(fd, text, 2) == 2 && text[0] == '4');
  CHECK(lseek(copy, 0, SEEK_CUR) == 6);
}

static void append(void) {
  int fd = open("log", O_WRONLY | O_CREAT | O_APPEND, 0600);
  CHECK(write(fd, "before ", 7) == 7);
  checkpoint_here();
  CHECK(write(fd, "after", 5) == 5);
  CHECK(strcmp(read_at(open("log", O_RDONLY), 0), "before after") == 0);
}

static void deleted(void) {
  int fd = make("file", "unlinked");
  CHECK(unlink("file") == 0);
  checkpoint_here();
  CHECK(strcmp(read_at(fd, 0), "unlinked") == 0);
}

static void tmpfile_flag(void) {
  int fd = open(".", O_TMPFILE | O_RDWR, 0600);
  NEED(fd >= 0);
  CHECK(write(fd, "nameless", 8) == 8);
  checkpoint_here();
  CHECK(strcmp(read_at(fd, 0), "nameless") == 0);
}

static void hard_link(void) {
  int fd = make("first", "linked");
  CHECK(link("first", "second") == 0 && unlink("first") == 0);
  checkpoint_here();
  CHECK(strcmp(read_at(fd, 0), "linked") == 0);
  CHECK(pwrite(fd, "L", 1, 0) == 1 && strcmp(read_at(open("second", O_RDONLY), 0), "Linked") == 0);
}

static void renamed(void) {
  int fd = make("first", "renamed");
  CHECK(rename("first", "second") == 0);
  checkpoint_here();
  CHECK(strcmp(read_at(fd, 0), "renamed") == 0);
}

static void kernel_file(const char *path) {
  int fd = open(path, O_RDONLY);
  NEED(fd >= 0);
  CHECK(read(fd, text, 20) > 0);
  checkpoint_here();
  CHECK(lseek(fd, 0, SEEK_SET) == 0 && read(fd, text, 20) > 0);
}
static void proc_status(void) {
  kernel_file("/proc/self/status");
  int fd = open("/proc/self/status", O_RDONLY);
  CHECK(fd >= 0);
}
static void proc_maps(void) { kernel_file("/proc/self/maps"); }
static void proc_mem(void) {
  static char secret[] = "secret";
  int fd = open("/proc/self/mem", O_RDWR);
  NEED(fd >= 0);
  checkpoint_here();
  CHECK(pread(fd, text, 6, (off_t)(uintptr_t)secret) == 6 && memcmp(text, secret, 6) == 0);
}
static void proc_mountinfo(void) { kernel_file("/proc/self/mountinfo"); }
static void proc_task(void) {
  char path[64];
  snprintf(path, sizeof path, "/proc/self/task/%d/stat", (int)gettid());
  kernel_file(path);
}
static void proc_net(void) { kernel_file("/proc/net/dev"); }
static void proc_stat(void) { kernel_file("/proc/stat"); }
static void proc_folder(void) {
  int fd = open("/proc/self", O_RDONLY | O_DIRECTORY);
  checkpoint_here();
  int status = openat(fd, "status", O_RDONLY);
  CHECK(status >= 0 && read(status, text, 4) == 4 && memcmp(text, "Name", 4) == 0);
}
static void proc_child(void) {
  pid_t child = fork();
  if (child == 0) pause();
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/stat", (int)child);
  kernel_file(path);
  kill(child, SIGKILL);
}
static void proc_ended(void) {
  pid_t child = fork();
  if (child == 0) pause();
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/stat", (int)child);
  int fd = open(path, O_RDONLY);
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
  checkpoint_here();
  CHECK(read(fd, text, 1) < 0 && errno == ESRCH);
}
static void sys_file(void) { kernel_file("/sys/kernel/mm/transparent_hugepage/enabled"); }
static void sys_cpu(void) { kernel_file("/sys/devices/system/cpu/online"); }
static void cgroup_file(void) { kernel_file("/sys/fs/cgroup/cgroup.procs"); }

static void folder(void) {
  CHECK(mkdir("sub", 0700) == 0);
  int fd = open("sub", O_RDONLY | O_DIRECTORY);
  checkpoint_here();
  CHECK(mkdirat(fd, "inner", 0700) == 0 && access("sub/inner", F_OK) == 0);
}

static void path_only(void) {
  close(make("file", "path"));
  int fd = open("file", O_PATH);
  checkpoint_here();
  snprintf(text, sizeof text, "/proc/self/fd/%d", fd);
  CHECK(strcmp(read_at(open(text, O_RDONLY), 0), "path") == 0);
}

static void symlink_path(void) {
  CHECK(symlink("nowhere", "link") == 0);
  int fd = open("link", O_PATH | O_NOFOLLOW);
  checkpoint_here();
  CHECK(readlinkat(fd, "", text, sizeof text) == 7);
}

static void deleted_cwd(void) {
  CHECK(mkdir("gone", 0700) == 0 && chdir("gone") == 0 && rmdir("../gone") == 0);
  checkpoint_here();
  CHECK(open("new", O_WRONLY | O_CREAT, 0600) < 0 && errno == ENOENT);
}

static void sparse(void) {
  int fd = open("big", O_RDWR | O_CREAT, 0600);
  NEED(ftruncate(fd, 4ll << 40) == 0);
  CHECK(pwrite(fd, "end", 3, (4ll << 40) - 8) == 3);
  checkpoint_here();
  CHECK(strncmp(read_at(fd, (4ll << 40) - 8), "end", 3) == 0);
}

static void sparse_deleted(void) {
  int fd = open("big", O_RDWR | O_CREAT, 0600);
  NEED(ftruncate(fd, 512ll << 20) == 0);
  CHECK(pwrite(fd, "end", 3, 500ll << 20) == 3 && unlink("big") == 0);
  checkpoint_here();
  CHECK(strncmp(read_at(fd, 500ll << 20), "end", 3) == 0);
}

static void fifo(void) {
  CHECK(mkfifo("fifo", 0600) == 0);
  int fd = open("fifo", O_RDWR);
  CHECK(write(fd, "queued", 6) == 6);
  checkpoint_here();
  CHECK(read(fd, text, 6) == 6 && strncmp(text, "queued", 6) == 0);
}

static void held(int fd) {  // by another open description
  (void)fd;
  int other = open("file", O_RDWR);
  CHECK(flock(other, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK);
}
static void flock_held(void) {
  int fd = make("file", "x");
  CHECK(flock(fd, LOCK_EX) == 0);
  checkpoint_here();
  held(fd);
}
static int record_lock(int fd, int command) {
  struct flock l = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 2, .l_len = 3};
  return fcntl(fd, command, &l);
}
static void fcntl_lock(void) {
  int fd = make("file", "0123456789");
  CHECK(record_lock(fd, F_SETLK) == 0);
  checkpoint_here();
  pid_t child = fork();
  if (child == 0) _exit(record_lock(fd, F_SETLK) < 0 ? 0 : 1);
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}
static void ofd_lock(void) {
  int fd = make("file", "0123456789");
  CHECK(record_lock(fd, F_OFD_SETLK) == 0);
  checkpoint_here();
  CHECK(record_lock(open("file", O_RDWR), F_OFD_SETLK) < 0);
}
static void lease(void) {
  close(make("file", "x"));
  int fd = open("file", O_RDONLY);
  NEED(fcntl(fd, F_SETLEASE, F_RDLCK) == 0);
  checkpoint_here();
  CHECK(fcntl(fd, F_GETLEASE) == F_RDLCK);
}
static void async_owner(void) {
  int ends[2];
  CHECK(pipe(ends) == 0 && fcntl(ends[0], F_SETOWN, getpid()) == 0 && fcntl(ends[0], F_SETSIG, SIGUSR1) == 0);
  checkpoint_here();
  CHECK(fcntl(ends[0], F_GETOWN) == getpid() && fcntl(ends[0], F_GETSIG) == SIGUSR1);
}
static volatile int told;
static void is_told(int signal) { told = signal; }
static void folder_signals(void) {
  CHECK(mkdir("watched", 0700) == 0);
  int fd = open("watched", O_RDONLY | O_DIRECTORY);
  signal(SIGIO, is_told);
  NEED(fcntl(fd, F_NOTIFY, DN_CREATE | DN_MULTISHOT) == 0);
  checkpoint_here();
  close(make("watched/file", "x"));
  CHECK(told == SIGIO);
}
static void many(void) {
  int last = -1;
  for (int i = 0; i < 900; i++) NEED((last = open("/dev/null", O_RDONLY)) >= 0);
  checkpoint_here();
  CHECK(read(last, text, 1) == 0);
}
static void file_size_limit(void) {
  int fd = make("file", "small");
  struct rlimit limit = {1000, RLIM_INFINITY};
  CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  checkpoint_here();
  CHECK(strcmp(read_at(fd, 0), "small") == 0 && getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur == 1000);
}
static void file_size_limit_deleted(void) {
  int fd = make("file", "0123456789012345678901234567890123456789");
  CHECK(unlink("file") == 0);
  struct rlimit limit = {10, 10};
  CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
  write_file("ready", "");
  while (faccessat(start_folder, "go", F_OK, 0) != 0) nap(10);
  CHECK(strlen(read_at(fd, 0)) == 40);
}

FEATURES({"position", position}, {"append", append}, {"deleted", deleted}, {"tmpfile", tmpfile_flag},
         {"hard_link", hard_link}, {"renamed", renamed}, {"proc_status", proc_status}, {"proc_maps", proc_maps},
         {"proc_mem", proc_mem}, {"proc_mountinfo", proc_mountinfo}, {"proc_task", proc_task}, {"proc_net", proc_net},
         {"proc_stat", proc_stat}, {"proc_folder", proc_folder}, {"proc_child", proc_child}, {"proc_ended", proc_ended},
         {"sys_file", sys_file}, {"sys_cpu", sys_cpu}, {"cgroup_file", cgroup_file}, {"folder", folder},
         {"path_only", path_only}, {"symlink_path", symlink_path}, {"deleted_cwd", deleted_cwd}, {"sparse", sparse},
         {"sparse_deleted", sparse_deleted}, {"fifo", fifo}, {"flock", flock_held}, {"fcntl_lock", fcntl_lock},
         {"ofd_lock", ofd_lock}, {"lease", lease}, {"async_owner", async_owner}, {"folder_signals", folder_signals}, {"many", many},
         {"file_size_limit", file_size_limit}, {"file_size_limit_deleted", file_size_limit_deleted})
