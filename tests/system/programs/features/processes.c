// SPDX-License-Identifier: Apache-2.0
// Processes, threads, signals, timers, rights and limits.
#include "feature.h"

#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/landlock.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/utsname.h>

static volatile sig_atomic_t caught, caught_value;
static void catch (int signal, siginfo_t *info, void *context) {
  (void)context;
  caught = signal;
  caught_value = info->si_value.sival_int;
}
static void catch_with(int signal, int flags) {
  struct sigaction a = {.sa_sigaction = catch, .sa_flags = SA_SIGINFO | flags};
  CHECK(sigaction(signal, &a, NULL) == 0);
}
static sigset_t only(int signal) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, signal);
  return set;
}
static void pause_until_killed(void) {
  for (;;) pause();
}

static volatile int counted, stop;
static void *count(void *argument) {
  static __thread int own;
  own = (int)(intptr_t)argument;
  while (!stop) nap(20);
  __sync_fetch_and_add(&counted, own);
  return NULL;
}
static void threads_of(int n) {
  pthread_t *t = calloc((size_t)n, sizeof *t);
  pthread_attr_t small;
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, 65536);
  for (int i = 0; i < n; i++) NEED(pthread_create(&t[i], &small, count, (void *)1) == 0);
  checkpoint_here();
  stop = 1;
  for (int i = 0; i < n; i++) pthread_join(t[i], NULL);
  CHECK(counted == n);
}
static void threads(void) { threads_of(8); }
static void threads_1000(void) { threads_of(1000); }
static void thread_names(void) {
  pthread_t t;
  NEED(pthread_create(&t, NULL, count, (void *)1) == 0);
  CHECK(pthread_setname_np(t, "worker") == 0 && prctl(PR_SET_NAME, "leader") == 0);
  checkpoint_here();
  char name[16];
  CHECK(pthread_getname_np(t, name, sizeof name) == 0 && strcmp(name, "worker") == 0);
  CHECK(prctl(PR_GET_NAME, name) == 0 && strcmp(name, "leader") == 0);
}
static void *outlive(void *argument) {
  (void)argument;
  checkpoint_here();
  write_file("result", "ok");
  exit(0);
}
static void leader_ended(void) {
  pthread_t t;
  NEED(pthread_create(&t, NULL, outlive, NULL) == 0);
  pthread_exit(NULL);
}
static void processes_200(void) {
  pid_t children[200];
  for (int i = 0; i < 200; i++) NEED((children[i] = child_of(pause_until_killed)) > 0);
  checkpoint_here();
  for (int i = 0; i < 200; i++) CHECK(kill(children[i], SIGTERM) == 0);
  for (int i = 0; i < 200; i++) {
    int status;
    CHECK(waitpid(children[i], &status, 0) == children[i] && WTERMSIG(status) == SIGTERM);
  }
}
static void zombie(void) {
  pid_t child = fork();
  if (child == 0) _exit(7);
  nap(50);
  checkpoint_here();
  int status;
  CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 7);
}
static void session(void) {
  pid_t child = fork();
  if (child == 0) {
    setsid();
    pid_t inner = child_of(pause_until_killed);
    (void)inner;
    pause_until_killed();
  }
  nap(50);
  checkpoint_here();
  CHECK(getsid(child) == child && getpgid(child) == child && kill(-child, SIGKILL) == 0);
}
static void own_group(void) {
  pid_t child = child_of(pause_until_killed);
  CHECK(setpgid(child, child) == 0);
  checkpoint_here();
  CHECK(getpgid(child) == child && kill(-child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
}
static void stopped_child(void) {
  pid_t child = child_of(pause_until_killed);
  int status;
  CHECK(kill(child, SIGSTOP) == 0 && waitpid(child, &status, WUNTRACED) == child);
  checkpoint_here();
  char path[64], stat[256] = "";
  snprintf(path, sizeof path, "/proc/%d/stat", (int)child);
  CHECK(read(open(path, O_RDONLY), stat, sizeof stat - 1) > 0 && strstr(stat, ") T "));
  CHECK(kill(child, SIGCONT) == 0 && kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
}
static void vfork_exec(void) {
  int ends[2];
  CHECK(pipe2(ends, O_CLOEXEC) == 0);
  pid_t child = vfork();
  if (child == 0) {
    dup2(ends[0], 0);
    execlp("cat", "cat", NULL);
    _exit(1);
  }
  close(ends[0]);
  checkpoint_here();
  close(ends[1]);
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}
static void in_vfork(void) {
  pid_t child = vfork();
  if (child == 0) {
    checkpoint_here();
    _exit(5);
  }
  int status;
  CHECK(waitpid(child, &status, 0) == child && WEXITSTATUS(status) == 5);
}
static void daemon_child(void) {
  pid_t child = fork();
  if (child == 0) {
    setsid();
    if (fork() == 0) pause_until_killed();
    _exit(0);
  }
  CHECK(waitpid(child, NULL, 0) == child);
  checkpoint_here();
}
static void subreaper(void) {
  CHECK(prctl(PR_SET_CHILD_SUBREAPER, 1) == 0);
  pid_t child = fork();
  if (child == 0) {
    if (fork() == 0) pause_until_killed();
    _exit(0);
  }
  CHECK(waitpid(child, NULL, 0) == child);
  checkpoint_here();
  int is = 0;
  CHECK(prctl(PR_GET_CHILD_SUBREAPER, &is) == 0 && is == 1);
  kill(child + 1, SIGKILL);
  CHECK(waitpid(-1, NULL, 0) > 0);
}
static void traced_child(void) {
  pid_t child = fork();
  if (child == 0) {
    ptrace(PTRACE_TRACEME, 0, 0, 0);
    raise(SIGSTOP);
    _exit(0);
  }
  CHECK(waitpid(child, NULL, 0) == child);
  checkpoint_here();
  kill(child, SIGKILL);
}
static void robust_mutex(void) {
  pthread_mutex_t *m = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  pthread_mutexattr_t a;
  pthread_mutexattr_init(&a);
  pthread_mutexattr_setpshared(&a, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&a, PTHREAD_MUTEX_ROBUST);
  CHECK(pthread_mutex_init(m, &a) == 0);
  pid_t child = fork();
  if (child == 0) {
    pthread_mutex_lock(m);
    pause_until_killed();
  }
  nap(50);
  checkpoint_here();
  CHECK(pthread_mutex_trylock(m) == EBUSY && kill(child, SIGKILL) == 0 &&
        waitpid(child, NULL, 0) == child);
  CHECK(pthread_mutex_lock(m) == EOWNERDEAD);
}
static void condition(void) {
  pthread_mutex_t m = PTHREAD_MUTEX_INITIALIZER;
  pthread_cond_t c = PTHREAD_COND_INITIALIZER;
  checkpoint_here();
  struct timespec end;
  clock_gettime(CLOCK_REALTIME, &end);
  end.tv_nsec = (end.tv_nsec + 50000000) % 1000000000;
  pthread_mutex_lock(&m);
  CHECK(pthread_cond_timedwait(&c, &m, &end) == ETIMEDOUT);
}
static void interval_timer(void) {
  catch_with(SIGALRM, SA_RESTART);
  struct itimerval every = {{0, 20000}, {0, 20000}};
  CHECK(setitimer(ITIMER_REAL, &every, NULL) == 0);
  checkpoint_here();
  caught = 0;
  for (int i = 0; i < 500 && !caught; i++) nap(10);
  CHECK(caught == SIGALRM);
}
static void posix_timer(void) {
  catch_with(SIGUSR1, SA_RESTART);
  timer_t timer;
  struct sigevent e = {
      .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value = {.sival_int = 41}};
  CHECK(timer_create(CLOCK_MONOTONIC, &e, &timer) == 0);
  struct itimerspec every = {{0, 20000000}, {0, 20000000}};
  CHECK(timer_settime(timer, 0, &every, NULL) == 0);
  checkpoint_here();
  caught = 0;
  for (int i = 0; i < 500 && !caught; i++) nap(10);
  CHECK(caught == SIGUSR1 && caught_value == 41);
}
static void alternate_stack(void) {
  static char memory[65536];
  stack_t had = {.ss_sp = memory, .ss_size = sizeof memory}, now;
  CHECK(sigaltstack(&had, NULL) == 0);
  catch_with(SIGUSR1, SA_ONSTACK);
  checkpoint_here();
  CHECK(sigaltstack(NULL, &now) == 0 && now.ss_sp == memory && raise(SIGUSR1) == 0 &&
        caught == SIGUSR1);
}
static void queued_signals(void) {
  int signal = SIGRTMIN + 3;
  sigset_t set = only(signal);
  CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
  for (int i = 0; i < 5; i++)
    CHECK(sigqueue(getpid(), signal, (union sigval){.sival_int = 100 + i}) == 0);
  checkpoint_here();
  for (int i = 0; i < 5; i++) {
    siginfo_t info;
    CHECK(sigwaitinfo(&set, &info) == signal && info.si_value.sival_int == 100 + i);
  }
}
static void signal_actions(void) {
  signal(SIGHUP, SIG_IGN);
  catch_with(SIGTERM, 0);
  sigset_t set = only(SIGUSR2), now;
  CHECK(sigprocmask(SIG_BLOCK, &set, NULL) == 0);
  checkpoint_here();
  CHECK(raise(SIGHUP) == 0 && raise(SIGTERM) == 0 && caught == SIGTERM);
  CHECK(sigprocmask(SIG_BLOCK, NULL, &now) == 0 && sigismember(&now, SIGUSR2));
}
static void parent_death_signal(void) {
  // A signal that is ignored: the program may come from a process that ends.
  CHECK(prctl(PR_SET_PDEATHSIG, SIGURG) == 0);
  checkpoint_here();
  int now = 0;
  CHECK(prctl(PR_GET_PDEATHSIG, &now) == 0 && now == SIGURG);
}
static void limits(void) {
  struct rlimit files = {200, 300}, stack = {4 << 20, 16 << 20}, now;
  CHECK(setrlimit(RLIMIT_NOFILE, &files) == 0 && setrlimit(RLIMIT_STACK, &stack) == 0);
  checkpoint_here();
  CHECK(getrlimit(RLIMIT_NOFILE, &now) == 0 && now.rlim_cur == 200 && now.rlim_max == 300);
  CHECK(getrlimit(RLIMIT_STACK, &now) == 0 && now.rlim_cur == 4 << 20);
}
static void address_space_limit(void) {
  struct rlimit l = {1ul << 30, 1ul << 30};
  CHECK(setrlimit(RLIMIT_AS, &l) == 0);
  checkpoint_here();
  CHECK(mmap(NULL, 2ul << 30, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED);
}
static void few_descriptors(void) {
  struct rlimit l = {8, 8};
  CHECK(setrlimit(RLIMIT_NOFILE, &l) == 0);
  checkpoint_here();
  CHECK(getrlimit(RLIMIT_NOFILE, &l) == 0 && l.rlim_cur == 8);
}
static void data_limit(void) {
  struct rlimit l = {16 << 20, 16 << 20};
  CHECK(setrlimit(RLIMIT_DATA, &l) == 0);
  checkpoint_here();
  CHECK(getrlimit(RLIMIT_DATA, &l) == 0 && l.rlim_cur == 16 << 20);
}
static void cpu_limit(void) {
  struct rlimit l = {3600, 7200};
  CHECK(setrlimit(RLIMIT_CPU, &l) == 0);
  checkpoint_here();
  CHECK(getrlimit(RLIMIT_CPU, &l) == 0 && l.rlim_cur == 3600);
}
static void seccomp_filter(void) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_getppid, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 77),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof code / sizeof *code, code};
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  NEED(syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0);
  checkpoint_here();
  CHECK(syscall(SYS_getppid) == -1 && errno == 77);
}
static void landlock(void) {
  struct landlock_ruleset_attr a = {.handled_access_fs = LANDLOCK_ACCESS_FS_MAKE_DIR};
  int fd = (int)syscall(444 /* landlock_create_ruleset */, &a, sizeof a, 0);
  NEED(fd >= 0 && prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && syscall(446, fd, 0) == 0 &&
       close(fd) == 0);
  checkpoint_here();
  CHECK(mkdir("forbidden", 0700) < 0 && errno == EACCES);
}
static void bounding_set(void) {
  NEED(prctl(PR_CAPBSET_DROP, 22 /* CAP_SYS_BOOT */) == 0);
  checkpoint_here();
  CHECK(prctl(PR_CAPBSET_READ, 22) == 0 && prctl(PR_CAPBSET_READ, 0) == 1);
}
static void other_user(void) {
  CHECK(chmod(".", 0777) == 0);
  NEED(setresgid(65534, 65534, 65534) == 0 && setresuid(65534, 65534, 65534) == 0);
  prctl(PR_SET_DUMPABLE, 1);
  checkpoint_here();
  CHECK(getuid() == 65534 && geteuid() == 65534 && getgid() == 65534 && setuid(0) < 0);
}
static void no_new_privileges(void) {
  CHECK(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0);
  checkpoint_here();
  CHECK(prctl(PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0) == 1);
}
static void not_dumpable(void) {
  CHECK(prctl(PR_SET_DUMPABLE, 0) == 0);
  checkpoint_here();
  CHECK(prctl(PR_GET_DUMPABLE) == 0);
}
static void setarch(void) {
  CHECK(personality(ADDR_NO_RANDOMIZE) >= 0);
  checkpoint_here();
  CHECK(personality(0xffffffff) & ADDR_NO_RANDOMIZE);
}
static void taskset(void) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET(0, &set);
  CHECK(sched_setaffinity(0, sizeof set, &set) == 0);
  checkpoint_here();
  CHECK(sched_getaffinity(0, sizeof set, &set) == 0 && CPU_COUNT(&set) == 1 && CPU_ISSET(0, &set));
}
// As OpenMP's runtimes do: each thread on a processor of its own, the first one anywhere.
static pthread_barrier_t bound_threads;
static void *bound_thread(void *processor) {
  cpu_set_t set;
  CPU_ZERO(&set);
  CPU_SET((int)(intptr_t)processor, &set);
  int ok = pthread_setaffinity_np(pthread_self(), sizeof set, &set) == 0;
  pthread_barrier_wait(&bound_threads);
  pthread_barrier_wait(&bound_threads);
  ok = ok && pthread_getaffinity_np(pthread_self(), sizeof set, &set) == 0;
  return (void *)(intptr_t)(ok && CPU_COUNT(&set) == 1 &&
                            CPU_ISSET((int)(intptr_t)processor, &set));
}
static void bound(void) {
  NEED(sysconf(_SC_NPROCESSORS_ONLN) >= 2);
  cpu_set_t before, after;
  CHECK(sched_getaffinity(0, sizeof before, &before) == 0);
  pthread_t threads[4];
  pthread_barrier_init(&bound_threads, NULL, 5);
  for (intptr_t i = 0; i < 4; i++)
    NEED(pthread_create(&threads[i], NULL, bound_thread, (void *)(i % 2)) == 0);
  pthread_barrier_wait(&bound_threads);
  checkpoint_here();
  pthread_barrier_wait(&bound_threads);
  for (int i = 0; i < 4; i++) {
    void *ok;
    CHECK(pthread_join(threads[i], &ok) == 0 && ok);
  }
  CHECK(sched_getaffinity(0, sizeof after, &after) == 0 && CPU_EQUAL(&before, &after));
}
static void niceness(void) {
  CHECK(setpriority(PRIO_PROCESS, 0, 5) == 0);
  checkpoint_here();
  CHECK(getpriority(PRIO_PROCESS, 0) == 5);
}
static void batch_policy(void) {
  struct sched_param p = {0};
  CHECK(sched_setscheduler(0, SCHED_BATCH, &p) == 0);
  checkpoint_here();
  CHECK(sched_getscheduler(0) == SCHED_BATCH);
}
static void realtime_policy(void) {
  struct sched_param p = {5};
  NEED(sched_setscheduler(0, SCHED_FIFO, &p) == 0);
  checkpoint_here();
  CHECK(sched_getscheduler(0) == SCHED_FIFO && sched_getparam(0, &p) == 0 && p.sched_priority == 5);
}
static void file_mask(void) {
  umask(027);
  checkpoint_here();
  CHECK(umask(0) == 027);
}
static void root_folder(void) {
  CHECK(mkdir("root", 0755) == 0);
  NEED(chroot("root") == 0 && chdir("/") == 0);
  checkpoint_here();
  CHECK(access("/etc", F_OK) < 0 && access("/", F_OK) == 0);
}
static void floating_point(void) {
  volatile double third = 1.0 / 3;
  unsigned control = 0x1f80;  // all exceptions masked; and round towards +infinity
  unsigned mxcsr = control | 0x4000;
  __asm__ volatile("ldmxcsr %0" : : "m"(mxcsr));
  checkpoint_here();
  unsigned now = 0;
  __asm__ volatile("stmxcsr %0" : "=m"(now));
  CHECK((now & 0x6000) == 0x4000 && third > 0.333);
}
static void monotonic_clock(void) {
  struct timespec before, after;
  clock_gettime(CLOCK_MONOTONIC, &before);
  checkpoint_here();
  clock_gettime(CLOCK_MONOTONIC, &after);
  CHECK(after.tv_sec >= before.tv_sec && after.tv_sec < before.tv_sec + 600);
}
static void oom_score(void) {
  int fd = open("/proc/self/oom_score_adj", O_RDWR);
  NEED(fd >= 0 && write(fd, "500", 3) == 3 && close(fd) == 0);
  checkpoint_here();
  char text[16] = "";
  CHECK(read(open("/proc/self/oom_score_adj", O_RDONLY), text, 15) > 0 && atoi(text) == 500);
}
static void securebits(void) {
  NEED(prctl(PR_SET_SECUREBITS, 1 << 2 /* SECBIT_NO_SETUID_FIXUP */) == 0);
  checkpoint_here();
  CHECK(prctl(PR_GET_SECUREBITS) == 1 << 2);
}
// keyctl(2): a session keyring of its own with one key. The operations are those of linux/keyctl.h.
static void session_keyring(void) {
  NEED(syscall(SYS_keyctl, 1 /* KEYCTL_JOIN_SESSION_KEYRING */, NULL) >= 0);
  long key = syscall(SYS_add_key, "user", "ckpt-feature", "secret", 6, -3 /* KEY_SPEC_SESSION_KEYRING */);
  NEED(key >= 0);
  checkpoint_here();
  char text[8] = "";
  CHECK(syscall(SYS_keyctl, 11 /* KEYCTL_READ */, key, text, sizeof text) == 6);
  CHECK(syscall(SYS_keyctl, 10 /* KEYCTL_SEARCH */, -3, "user", "ckpt-feature", 0) == key);
}
// Of AppArmor, SELinux or Smack (proc_pid_attr(5)).
static void security_label(void) {
  char before[256] = "", after[256] = "";
  int fd = open("/proc/self/attr/current", O_RDONLY);
  NEED(fd >= 0 && read(fd, before, sizeof before - 1) > 0 && close(fd) == 0);
  checkpoint_here();
  CHECK(read(open("/proc/self/attr/current", O_RDONLY), after, sizeof after - 1) > 0 && strcmp(before, after) == 0);
}

static volatile int timer_made;
static timer_t timer_of_thread;
static void *makes_timer(void *unused) {
  struct sigevent e = {.sigev_notify = SIGEV_THREAD_ID, .sigev_signo = SIGPROF};
  e._sigev_un._tid = (int)syscall(SYS_gettid);
  timer_made = timer_create(CLOCK_MONOTONIC, &e, &timer_of_thread) == 0;
  return unused;
}
static void ended_threads_timer(void) {
  signal(SIGPROF, SIG_IGN);
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, makes_timer, NULL) == 0 && pthread_join(thread, NULL) == 0);
  NEED(timer_made);
  checkpoint_here();
  struct itimerspec in = {{0, 0}, {100, 0}}, left;
  CHECK(timer_settime(timer_of_thread, 0, &in, NULL) == 0 &&
        timer_gettime(timer_of_thread, &left) == 0);
  CHECK(left.it_value.tv_sec > 50);
}
static volatile int thread_step;
static int own_state;  // of clone(2)
static void make_own(void) {
  if (own_state == CLONE_FILES) CHECK(dup2(open("own", O_RDWR | O_CREAT, 0600), 60) == 60);
  if (own_state == CLONE_FS) CHECK(mkdir("own", 0700) == 0 && chdir("own") == 0);
  if (own_state == CLONE_NEWUTS) CHECK(sethostname("own", 3) == 0);
}
static void check_own(void) {
  char folder[4096] = "";
  struct utsname name;
  if (own_state == CLONE_FILES) CHECK(fcntl(60, F_GETFD) >= 0);
  if (own_state == CLONE_FS)
    CHECK(getcwd(folder, sizeof folder) && strcmp(strrchr(folder, '/'), "/own") == 0);
  if (own_state == CLONE_NEWUTS) CHECK(uname(&name) == 0 && strcmp(name.nodename, "own") == 0);
}
static void *has_own(void *unused) {
  if (unshare(own_state) != 0) fail("unshare: %s", strerror(errno));
  make_own();
  thread_step = 1;
  while (thread_step != 2) nap(5);
  check_own();
  return unused;
}
static void thread_with_own(int state) {
  pthread_t thread;
  own_state = state;
  CHECK(pthread_create(&thread, NULL, has_own, NULL) == 0);
  while (thread_step != 1) nap(5);
  checkpoint_here();
  thread_step = 2;
  pthread_join(thread, NULL);
}
static void thread_descriptors(void) { thread_with_own(CLONE_FILES); }
static void thread_folder(void) { thread_with_own(CLONE_FS); }
static void thread_namespace(void) { thread_with_own(CLONE_NEWUTS); }
static volatile int tid_of_thread;
static void *has_policies(void *unused) {
  tid_of_thread = (int)syscall(SYS_gettid);
  NEED(syscall(SYS_ioprio_set, 1, 0, 2 << 13 | 6) == 0 &&
       prctl(PR_SET_TIMERSLACK, 54321, 0, 0, 0) == 0);
  thread_step = 1;
  while (thread_step != 2) nap(5);
  CHECK(prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0) == 54321);
  return unused;
}
static void io_priority(void) {
  const int kIdle = 3 << 13;  // IOPRIO_CLASS_IDLE
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, has_policies, NULL) == 0);
  while (thread_step != 1) nap(5);
  NEED(syscall(SYS_ioprio_set, 1, 0, kIdle) == 0 && prctl(PR_SET_TIMERSLACK, 12345, 0, 0, 0) == 0);
  checkpoint_here();
  CHECK(syscall(SYS_ioprio_get, 1, 0) == kIdle && prctl(PR_GET_TIMERSLACK, 0, 0, 0, 0) == 12345);
  CHECK(syscall(SYS_ioprio_get, 1, (int)tid_of_thread) == (2 << 13 | 6));
  thread_step = 2;
  pthread_join(thread, NULL);
}
static void core_dump_filter(void) {
  char text[32] = "";
  int fd = open("/proc/self/coredump_filter", O_RDWR);
  NEED(fd >= 0 && write(fd, "0x7f", 4) == 4);
  close(fd);
  checkpoint_here();
  fd = open("/proc/self/coredump_filter", O_RDONLY);
  CHECK(read(fd, text, 31) > 0 && strtoul(text, NULL, 16) == 0x7f);
}

// Timers on CPU clocks (clock_getcpuclockid(3), pthread_getcpuclockid(3)): they run while the clock's thread or
// process computes, which begins after the restore.
static volatile int computes, expired;
static timer_t cpu_timer;
static void count_expiry(int signal) {
  (void)signal;
  expired++;
}
static void make_cpu_timer(clockid_t clock, int notified_thread) {
  struct sigevent e = {.sigev_notify = notified_thread ? SIGEV_THREAD_ID : SIGEV_SIGNAL, .sigev_signo = SIGPROF};
  if (notified_thread) e._sigev_un._tid = notified_thread;
  signal(SIGPROF, count_expiry);
  NEED(timer_create(clock, &e, &cpu_timer) == 0);
  const struct itimerspec in = {{0, 300000000}, {0, 300000000}};
  CHECK(timer_settime(cpu_timer, 0, &in, NULL) == 0);
}
static void expect_expiry(void) {
  for (int i = 0; i < 2000 && !expired; i++) nap(5);
  CHECK(expired);
}
static void *computing_thread(void *makes_timer_itself) {
  tid_of_thread = (int)syscall(SYS_gettid);
  if (makes_timer_itself) make_cpu_timer(CLOCK_THREAD_CPUTIME_ID, tid_of_thread);
  thread_step = 1;
  while (!computes) nap(5);
  while (!expired) {
  }
  return NULL;
}
static void cpu_timer_of(int makes_timer_itself) {
  pthread_t thread;
  clockid_t clock;
  CHECK(pthread_create(&thread, NULL, computing_thread, (void *)(intptr_t)makes_timer_itself) == 0);
  while (thread_step != 1) nap(5);
  NEED(pthread_getcpuclockid(thread, &clock) == 0);
  if (!makes_timer_itself) make_cpu_timer(clock, 0);
  checkpoint_here();
  CHECK(!expired);
  computes = 1;
  expect_expiry();
}
static void thread_cpu_timer(void) { cpu_timer_of(0); }
static void own_cpu_timer(void) { cpu_timer_of(1); }
static void *makes_shared_cpu_timer(void *unused) {
  make_cpu_timer(CLOCK_THREAD_CPUTIME_ID, 0);
  thread_step = 1;
  while (!expired) nap(5);
  return unused;
}
static void unknown_cpu_timer(void) {
  pthread_t thread;
  CHECK(pthread_create(&thread, NULL, makes_shared_cpu_timer, NULL) == 0);
  while (thread_step != 1) nap(5);
  checkpoint_here();
}
static void *makes_nothing(void *clock) {
  CHECK(pthread_getcpuclockid(pthread_self(), clock) == 0);
  thread_step = 1;
  while (thread_step != 2) nap(5);
  return NULL;
}
static void ended_threads_cpu_timer(void) {
  pthread_t thread;
  clockid_t clock;
  CHECK(pthread_create(&thread, NULL, makes_nothing, &clock) == 0);
  while (thread_step != 1) nap(5);
  make_cpu_timer(clock, 0);
  thread_step = 2;
  CHECK(pthread_join(thread, NULL) == 0);
  checkpoint_here();
  struct itimerspec left;
  CHECK(timer_gettime(cpu_timer, &left) == 0 && !left.it_value.tv_sec && !left.it_value.tv_nsec && !expired);
  CHECK(timer_delete(cpu_timer) == 0);
}
static void compute_after_restore(void) {
  while (faccessat(start_folder, "go", F_OK, 0) != 0) nap(5);
  for (;;) {
  }
}
static void childs_cpu_timer(void) {
  clockid_t clock;
  pid_t child = child_of(compute_after_restore);
  NEED(clock_getcpuclockid(child, &clock) == 0);
  make_cpu_timer(clock, 0);
  checkpoint_here();
  expect_expiry();
  kill(child, SIGKILL);
}
static void outer_cpu_timer(void) {
  clockid_t clock;
  NEED(clock_getcpuclockid(getppid(), &clock) == 0);
  make_cpu_timer(clock, 0);
  checkpoint_here();
}
// PR_SET_MDWE: memory that is written is never executed.
static void no_written_code(void) {
  NEED(prctl(65 /* PR_SET_MDWE */, 1 /* PR_MDWE_REFUSE_EXEC_GAIN */, 0, 0, 0) == 0);
  checkpoint_here();
  CHECK(prctl(66 /* PR_GET_MDWE */, 0, 0, 0, 0) == 1);
}
FEATURES({"threads", threads}, {"threads_1000", threads_1000}, {"thread_names", thread_names},
         {"leader_ended", leader_ended}, {"processes_200", processes_200}, {"zombie", zombie}, {"session", session},
         {"own_group", own_group}, {"stopped_child", stopped_child}, {"vfork_exec", vfork_exec},
         {"in_vfork", in_vfork}, {"daemon", daemon_child}, {"subreaper", subreaper}, {"traced_child", traced_child},
         {"robust_mutex", robust_mutex}, {"condition", condition}, {"interval_timer", interval_timer},
         {"posix_timer", posix_timer}, {"alternate_stack", alternate_stack}, {"queued_signals", queued_signals},
         {"signal_actions", signal_actions}, {"parent_death_signal", parent_death_signal}, {"limits", limits},
         {"address_space_limit", address_space_limit}, {"few_descriptors", few_descriptors},
         {"data_limit", data_limit}, {"cpu_limit", cpu_limit}, {"seccomp_filter", seccomp_filter},
         {"landlock", landlock}, {"bounding_set", bounding_set}, {"other_user", other_user},
         {"no_new_privileges", no_new_privileges}, {"not_dumpable", not_dumpable}, {"securebits", securebits},
         {"session_keyring", session_keyring}, {"security_label", security_label}, {"setarch", setarch},
         {"taskset", taskset}, {"bound", bound}, {"niceness", niceness}, {"batch_policy", batch_policy},
         {"realtime_policy", realtime_policy}, {"file_mask", file_mask}, {"root_folder", root_folder},
         {"floating_point", floating_point}, {"monotonic_clock", monotonic_clock}, {"oom_score", oom_score},
         {"ended_threads_timer", ended_threads_timer}, {"thread_descriptors", thread_descriptors},
         {"thread_folder", thread_folder}, {"thread_namespace", thread_namespace},
         {"io_priority", io_priority}, {"core_dump_filter", core_dump_filter},
         {"thread_cpu_timer", thread_cpu_timer}, {"own_cpu_timer", own_cpu_timer},
         {"unknown_cpu_timer", unknown_cpu_timer}, {"ended_threads_cpu_timer", ended_threads_cpu_timer},
         {"childs_cpu_timer", childs_cpu_timer}, {"outer_cpu_timer", outer_cpu_timer},
         {"no_written_code", no_written_code})
