// SPDX-License-Identifier: Apache-2.0
// Descriptors that are neither files nor sockets.
#include "feature.h"

#include <linux/aio_abi.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <linux/userfaultfd.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/fanotify.h>
#include <sys/inotify.h>
#include <sys/signalfd.h>
#include <sys/timerfd.h>

static void event(void) {
  int fd = eventfd(0, EFD_NONBLOCK);
  uint64_t value = 3;
  CHECK(write(fd, &value, 8) == 8);
  checkpoint_here();
  CHECK(read(fd, &value, 8) == 8 && value == 3 && read(fd, &value, 8) < 0 && errno == EAGAIN);
}
static void event_semaphore(void) {
  int fd = eventfd(0, EFD_SEMAPHORE);
  uint64_t value = 3;
  CHECK(write(fd, &value, 8) == 8);
  checkpoint_here();
  for (int i = 0; i < 3; i++) CHECK(read(fd, &value, 8) == 8 && value == 1);
  struct pollfd p = {fd, POLLIN, 0};
  CHECK(poll(&p, 1, 0) == 0);
}
static void signal_fd(void) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGUSR1);
  CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
  int fd = signalfd(-1, &set, 0);
  CHECK(kill(getpid(), SIGUSR1) == 0);
  checkpoint_here();
  struct signalfd_siginfo info;
  CHECK(read(fd, &info, sizeof info) == sizeof info && info.ssi_signo == SIGUSR1);
}
static int ticking(int fd, int times) {
  uint64_t ticks;
  for (int i = 0; i < times; i++) {
    struct pollfd p = {fd, POLLIN, 0};
    int got;
    while ((got = poll(&p, 1, 10000)) < 0 && errno == EINTR) {
    }
    if (got != 1 || read(fd, &ticks, 8) != 8) return 0;
  }
  return 1;
}
static void timer_of(int clock) {
  int fd = timerfd_create(clock, 0);
  NEED(fd >= 0);
  struct itimerspec every = {{0, 20000000}, {600, 0}};
  CHECK(timerfd_settime(fd, 0, &every, NULL) == 0);
  checkpoint_here();
  CHECK(timerfd_gettime(fd, &every) == 0 && every.it_value.tv_sec > 60 &&
        every.it_interval.tv_nsec == 20000000);
  every.it_value = every.it_interval;
  CHECK(timerfd_settime(fd, 0, &every, NULL) == 0 && ticking(fd, 3));
}
static void timer(void) { timer_of(CLOCK_MONOTONIC); }
static void timer_boottime(void) { timer_of(CLOCK_BOOTTIME); }
static void timer_expired(void) {
  int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
  struct itimerspec every = {{0, 1000000}, {0, 1000000}};
  CHECK(timerfd_settime(fd, 0, &every, NULL) == 0);
  nap(50);
  checkpoint_here();
  CHECK(ticking(fd, 3));
}
static void timer_once_expired(void) {
  int fd = timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK);
  struct itimerspec once = {{0, 0}, {0, 1000000}};
  CHECK(timerfd_settime(fd, 0, &once, NULL) == 0);
  nap(50);
  checkpoint_here();
  uint64_t ticks = 0;
  CHECK(read(fd, &ticks, 8) == 8 && ticks == 1);
  nap(50);
  CHECK(read(fd, &ticks, 8) < 0 && errno == EAGAIN);
}
static void epoll(void) {
  int ends[2], fd = epoll_create1(0);
  CHECK(pipe(ends) == 0);
  struct epoll_event e = {EPOLLIN | EPOLLET, {.u64 = 1234567890123}};
  CHECK(epoll_ctl(fd, EPOLL_CTL_ADD, ends[0], &e) == 0);
  checkpoint_here();
  CHECK(write(ends[1], "x", 1) == 1 && epoll_wait(fd, &e, 1, 1000) == 1 &&
        e.data.u64 == 1234567890123);
}
static void epoll_nested(void) {
  int ends[2], inner = epoll_create1(0), outer = epoll_create1(0);
  CHECK(pipe(ends) == 0);
  struct epoll_event e = {EPOLLIN, {.u64 = 1}};
  CHECK(epoll_ctl(inner, EPOLL_CTL_ADD, ends[0], &e) == 0 &&
        epoll_ctl(outer, EPOLL_CTL_ADD, inner, &e) == 0);
  checkpoint_here();
  CHECK(write(ends[1], "x", 1) == 1 && epoll_wait(outer, &e, 1, 1000) == 1);
}
// The descriptor that was watched is closed, its file lives on under another number.
static void epoll_moved(void) {
  int ends[2], fd = epoll_create1(0);
  CHECK(pipe(ends) == 0);
  struct epoll_event e = {EPOLLIN, {.u64 = 77}};
  CHECK(epoll_ctl(fd, EPOLL_CTL_ADD, ends[0], &e) == 0);
  int moved = dup2(ends[0], 50);
  CHECK(moved == 50 && close(ends[0]) == 0);
  checkpoint_here();
  CHECK(write(ends[1], "x", 1) == 1 && epoll_wait(fd, &e, 1, 1000) == 1 && e.data.u64 == 77);
}
static void inotify(void) {
  CHECK(mkdir("watched", 0700) == 0);
  int fd = inotify_init1(0);
  NEED(fd >= 0 && inotify_add_watch(fd, "watched", IN_CREATE) >= 0);
  checkpoint_here();
  close(open("watched/new", O_WRONLY | O_CREAT, 0600));
  char event[512];
  struct pollfd p = {fd, POLLIN, 0};
  CHECK(poll(&p, 1, 5000) == 1 && read(fd, event, sizeof event) > 0);
  CHECK(strcmp(((struct inotify_event *)(void *)event)->name, "new") == 0);
}
static void fanotify(void) {
  CHECK(mkdir("watched", 0700) == 0);
  int fd = fanotify_init(FAN_CLASS_NOTIF, O_RDONLY);
  NEED(fd >= 0 && fanotify_mark(fd, FAN_MARK_ADD, FAN_CLOSE_WRITE | FAN_EVENT_ON_CHILD, AT_FDCWD,
                                "watched") == 0);
  checkpoint_here();
  close(open("watched/new", O_WRONLY | O_CREAT, 0600));
  struct pollfd p = {fd, POLLIN, 0};
  CHECK(poll(&p, 1, 5000) == 1);
}
static void pid_fd(void) {
  pid_t child = fork();
  if (child == 0) pause();
  int fd = (int)syscall(SYS_pidfd_open, child, 0);
  NEED(fd >= 0);
  checkpoint_here();
  CHECK(syscall(SYS_pidfd_send_signal, fd, SIGKILL, NULL, 0) == 0);
  struct pollfd p = {fd, POLLIN, 0};
  CHECK(poll(&p, 1, 5000) == 1 && waitpid(child, NULL, 0) == child);
}
static void full_pipe(void) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  char block[4096];
  for (int i = 0; i < 16; i++) {
    fill(block, sizeof block, (unsigned)i);
    CHECK(write(ends[1], block, sizeof block) == sizeof block);
  }
  checkpoint_here();
  for (int i = 0; i < 16; i++)
    CHECK(read(ends[0], block, sizeof block) == sizeof block &&
          filled(block, sizeof block, (unsigned)i));
}
static void large_pipe(void) {
  int ends[2];
  CHECK(pipe(ends) == 0);
  NEED(fcntl(ends[0], F_SETPIPE_SZ, 1 << 20) == 1 << 20);
  static char block[1 << 19];
  fill(block, sizeof block, 5);
  CHECK(write(ends[1], block, sizeof block) == sizeof block);
  checkpoint_here();
  CHECK(fcntl(ends[0], F_GETPIPE_SZ) == 1 << 20);
  memset(block, 0, sizeof block);
  for (size_t got = 0; got < sizeof block;) {
    ssize_t n = read(ends[0], block + got, sizeof block - got);
    CHECK(n > 0);
    got += (size_t)n;
  }
  CHECK(filled(block, sizeof block, 5));
}
static void packet_pipe(void) {
  int ends[2];
  NEED(pipe2(ends, O_DIRECT) == 0);
  CHECK(write(ends[1], "one", 3) == 3 && write(ends[1], "two", 3) == 3);
  checkpoint_here();
  char text[16];
  CHECK(read(ends[0], text, 16) == 3 && read(ends[0], text, 16) == 3);
}
static void half_closed_pipe(void) {
  int ends[2];
  CHECK(pipe(ends) == 0 && write(ends[1], "last", 4) == 4 && close(ends[1]) == 0);
  checkpoint_here();
  char text[16];
  CHECK(read(ends[0], text, 16) == 4 && read(ends[0], text, 16) == 0);
}
static void broken_pipe(void) {
  int ends[2];
  signal(SIGPIPE, SIG_IGN);
  CHECK(pipe(ends) == 0 && close(ends[0]) == 0);
  checkpoint_here();
  CHECK(write(ends[1], "x", 1) < 0 && errno == EPIPE);
}
static void duplicates(void) {
  int fd = open("/dev/null", O_RDONLY | O_CLOEXEC), high = fcntl(fd, F_DUPFD, 700);
  NEED(high >= 700);
  checkpoint_here();
  CHECK(fcntl(fd, F_GETFD) == FD_CLOEXEC && fcntl(high, F_GETFD) == 0);
}
static void aio(void) {
  aio_context_t context = 0;
  NEED(syscall(SYS_io_setup, 8, &context) == 0);
  int fd = open("data", O_RDWR | O_CREAT, 0600);
  checkpoint_here();
  static char text[] = "asynchronous";
  struct iocb request = {.aio_lio_opcode = IOCB_CMD_PWRITE,
                         .aio_fildes = (uint32_t)fd,
                         .aio_buf = (uintptr_t)text,
                         .aio_nbytes = 12},
              *list[] = {&request};
  struct io_event done;
  CHECK(syscall(SYS_io_submit, context, 1, list) == 1);
  CHECK(syscall(SYS_io_getevents, context, 1, 1, &done, NULL) == 1 && done.res == 12);
}
static void io_uring(void) {
  char parameters[120] = {0};
  NEED(syscall(425 /* io_uring_setup */, 8, parameters) >= 0);
  checkpoint_here();
}
static void user_fault(void) {
  NEED(syscall(SYS_userfaultfd, O_CLOEXEC | UFFD_USER_MODE_ONLY) >= 0);
  checkpoint_here();
}
static void perf(void) {
  struct perf_event_attr a = {
      .type = PERF_TYPE_SOFTWARE, .size = sizeof a, .config = PERF_COUNT_SW_TASK_CLOCK};
  NEED(syscall(SYS_perf_event_open, &a, 0, -1, -1, 0) >= 0);
  checkpoint_here();
}
static void bpf_map(void) {
  union bpf_attr a = {
      .map_type = BPF_MAP_TYPE_ARRAY, .key_size = 4, .value_size = 8, .max_entries = 4};
  NEED(syscall(SYS_bpf, BPF_MAP_CREATE, &a, sizeof a) >= 0);
  checkpoint_here();
}
static void namespace_file(void) {
  int fd = open("/proc/self/ns/uts", O_RDONLY);
  NEED(fd >= 0);
  checkpoint_here();
  struct stat had, now;
  CHECK(fstat(fd, &had) == 0 && stat("/proc/self/ns/uts", &now) == 0 && had.st_ino == now.st_ino);
}
static void random_device(void) {
  int fd = open("/dev/urandom", O_RDONLY);
  char byte;
  checkpoint_here();
  CHECK(read(fd, &byte, 1) == 1);
}
static void tun_device(void) {
  NEED(open("/dev/net/tun", O_RDWR) >= 0);
  checkpoint_here();
}
static void loop_device(void) {
  NEED(open("/dev/loop0", O_RDONLY) >= 0);
  checkpoint_here();
}
static void fuse_device(void) {
  NEED(open("/dev/fuse", O_RDWR) >= 0);
  checkpoint_here();
}
static void mount_object(void) {
  NEED(syscall(430 /* fsopen */, "tmpfs", 0) >= 0);
  checkpoint_here();
}

static int next_event(int fd) {
  char event[512];
  struct pollfd p = {fd, POLLIN, 0};
  if (poll(&p, 1, 5000) != 1 || read(fd, event, sizeof event) <= 0) return 0;
  return (int)((struct inotify_event *)(void *)event)->mask;
}
static void inotify_unread(void) {
  CHECK(mkdir("watched", 0700) == 0);
  int fd = inotify_init1(0);
  NEED(fd >= 0 && inotify_add_watch(fd, "watched", IN_CREATE) >= 0);
  close(open("watched/early", O_WRONLY | O_CREAT, 0600));
  checkpoint_here();
  CHECK(next_event(fd) & (IN_Q_OVERFLOW | IN_CREATE));
  struct pollfd p = {fd, POLLIN, 0};
  CHECK(poll(&p, 1, 0) == 0);
  close(open("watched/new", O_WRONLY | O_CREAT, 0600));
  CHECK(next_event(fd) & IN_CREATE);
}
static void inotify_unlinked(void) {
  int file = open("watched", O_RDWR | O_CREAT, 0600), fd = inotify_init1(0);
  NEED(fd >= 0 && inotify_add_watch(fd, "watched", IN_MODIFY) >= 0);
  CHECK(unlink("watched") == 0);
  checkpoint_here();
  CHECK(write(file, "x", 1) == 1 && next_event(fd) & IN_MODIFY);
}
static void fanotify_unread(void) {
  CHECK(mkdir("watched", 0700) == 0);
  int fd = fanotify_init(FAN_CLASS_NOTIF, O_RDONLY);
  NEED(fd >= 0 && fanotify_mark(fd, FAN_MARK_ADD, FAN_CLOSE_WRITE | FAN_EVENT_ON_CHILD, AT_FDCWD,
                                "watched") == 0);
  close(open("watched/early", O_WRONLY | O_CREAT, 0600));
  checkpoint_here();
  struct pollfd p = {fd, POLLIN, 0};
  CHECK(poll(&p, 1, 5000) == 1);
}
FEATURES({"eventfd", event}, {"eventfd_semaphore", event_semaphore}, {"signalfd", signal_fd},
         {"timerfd", timer}, {"timerfd_boottime", timer_boottime},
         {"timerfd_expired", timer_expired}, {"timerfd_once_expired", timer_once_expired},
         {"epoll", epoll}, {"epoll_nested", epoll_nested}, {"epoll_moved", epoll_moved},
         {"inotify", inotify}, {"fanotify", fanotify}, {"pidfd", pid_fd}, {"full_pipe", full_pipe},
         {"large_pipe", large_pipe}, {"packet_pipe", packet_pipe},
         {"half_closed_pipe", half_closed_pipe}, {"broken_pipe", broken_pipe},
         {"duplicates", duplicates}, {"aio", aio}, {"io_uring", io_uring},
         {"userfaultfd", user_fault}, {"perf", perf}, {"bpf", bpf_map},
         {"namespace_file", namespace_file}, {"random_device", random_device}, {"tun", tun_device},
         {"block_device", loop_device}, {"fuse", fuse_device}, {"mount_object", mount_object},
         {"inotify_unread", inotify_unread}, {"inotify_unlinked", inotify_unlinked},
         {"fanotify_unread", fanotify_unread})
