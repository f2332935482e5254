// SPDX-License-Identifier: Apache-2.0
// Memory: mappings of every kind.
#include "feature.h"

#include <linux/mempolicy.h>
#include <sys/shm.h>

enum { kPage = 4096, kMiB = 1 << 20 };

static unsigned char *map(size_t bytes, int protection, int flags) {
  void *p = mmap(NULL, bytes, protection, flags | MAP_ANONYMOUS, -1, 0);
  NEED(p != MAP_FAILED);
  return p;
}

static void anonymous(void) {
  unsigned char *p = map(8 * kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE);
  fill(p, 8 * kMiB, 1);
  CHECK(mprotect(p, kPage, PROT_READ) == 0);
  checkpoint_here();
  CHECK(filled(p, 8 * kMiB, 1));
}
static void huge_pages(void) {
  unsigned char *p = map(8 * kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE);
  NEED(madvise(p, 8 * kMiB, MADV_HUGEPAGE) == 0);
  fill(p, 8 * kMiB, 2);
  checkpoint_here();
  CHECK(filled(p, 8 * kMiB, 2));
}
static void sparse_100g(void) {
  unsigned char *p = map(100ul << 30, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_NORESERVE);
  for (int i = 0; i < 100; i++) p[(size_t)i << 30] = (unsigned char)(i + 1);
  checkpoint_here();
  for (int i = 0; i < 100; i++) CHECK(p[(size_t)i << 30] == i + 1);
  CHECK(p[12345678] == 0);
}
// More than the kernel lets a program write in one mapping (vm.overcommit_memory = 0).
static size_t beyond_memory(void) { return 3ul * (size_t)sysconf(_SC_PHYS_PAGES) * kPage; }
static void reserved(void) {
  unsigned char *p = map(beyond_memory(), PROT_NONE, MAP_PRIVATE);
  CHECK(mprotect(p + (1ul << 30), kMiB, PROT_READ | PROT_WRITE) == 0);
  fill(p + (1ul << 30), kMiB, 3);
  checkpoint_here();
  CHECK(filled(p + (1ul << 30), kMiB, 3));
  CHECK(mprotect(p + (2ul << 30), kMiB, PROT_READ | PROT_WRITE) == 0);
  fill(p + (2ul << 30), kMiB, 4);
}
static void read_only_file(void) {
  int fd = open("data", O_RDWR | O_CREAT, 0600);
  NEED(ftruncate(fd, (off_t)beyond_memory()) == 0 && pwrite(fd, "x", 1, 5ll << 30) == 1);
  unsigned char *p = mmap(NULL, beyond_memory(), PROT_READ, MAP_PRIVATE, fd, 0);
  NEED(p != MAP_FAILED);
  checkpoint_here();
  CHECK(p[5ul << 30] == 'x');
}
static void many_mappings(void) {
  unsigned char *p = map(60000ul * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE);
  for (size_t i = 0; i < 60000; i += 2) NEED(mprotect(p + i * kPage, kPage, PROT_READ) == 0);
  p[kPage] = 7;
  checkpoint_here();
  CHECK(p[kPage] == 7);
}
static void shared_by_fork(void) {
  volatile unsigned char *p = map(kPage, PROT_READ | PROT_WRITE, MAP_SHARED);
  pid_t child = fork();
  if (child == 0) {
    while (p[0] != 1) nap(5);
    p[1] = 2;
    _exit(0);
  }
  checkpoint_here();
  p[0] = 1;
  CHECK(waitpid(child, NULL, 0) == child && p[1] == 2);
}
static void file_shared(void) {
  int fd = open("data", O_RDWR | O_CREAT, 0600);
  CHECK(ftruncate(fd, kMiB) == 0);
  unsigned char *p = mmap(NULL, kMiB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  fill(p, kMiB, 5);
  checkpoint_here();
  CHECK(filled(p, kMiB, 5));
  p[0] = 99;
  unsigned char byte = 0;
  CHECK(pread(fd, &byte, 1, 0) == 1 && byte == 99);
}
static void file_private(void) {
  int fd = open("data", O_RDWR | O_CREAT, 0600);
  CHECK(ftruncate(fd, kMiB) == 0);
  unsigned char *p = mmap(NULL, kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  fill(p, kMiB / 2, 6);
  checkpoint_here();
  CHECK(filled(p, kMiB / 2, 6) && p[kMiB - 1] == 0);
}
static void file_deleted(void) {
  int fd = open("data", O_RDWR | O_CREAT, 0600);
  CHECK(ftruncate(fd, kMiB) == 0);
  unsigned char *p = mmap(NULL, kMiB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  fill(p, kMiB, 7);
  CHECK(unlink("data") == 0 && close(fd) == 0);
  checkpoint_here();
  CHECK(filled(p, kMiB, 7));
}
static void mapped_hard_link(void) {
  int fd = open("data", O_RDWR | O_CREAT, 0600);
  CHECK(ftruncate(fd, kMiB) == 0);
  unsigned char *p = mmap(NULL, kMiB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  fill(p, kMiB, 8);
  CHECK(link("data", "other") == 0 && unlink("data") == 0 && close(fd) == 0);
  checkpoint_here();
  CHECK(filled(p, kMiB, 8));
  p[0] = 98;
  unsigned char byte = 0;
  CHECK(pread(open("other", O_RDONLY), &byte, 1, 0) == 1 && byte == 98);
}
static void memfd(void) {
  int fd = memfd_create("mine", 0);
  NEED(fd >= 0 && ftruncate(fd, kMiB) == 0);
  unsigned char *p = mmap(NULL, kMiB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  fill(p, kMiB, 9);
  checkpoint_here();
  unsigned char byte = 0;
  CHECK(filled(p, kMiB, 9) && pread(fd, &byte, 1, 1) == 1 && byte == p[1]);
}
static void memfd_seals(void) {
  int fd = memfd_create("sealed", MFD_ALLOW_SEALING);
  NEED(fd >= 0 && write(fd, "sealed", 6) == 6);
  CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_WRITE | F_SEAL_SHRINK) == 0);
  checkpoint_here();
  CHECK(fcntl(fd, F_GET_SEALS) == (F_SEAL_WRITE | F_SEAL_SHRINK) && write(fd, "x", 1) < 0);
}
static void secret_memory(void) {
  int fd = (int)syscall(447 /* memfd_secret */, 0);
  NEED(fd >= 0 && ftruncate(fd, kPage) == 0);
  unsigned char *p = mmap(NULL, kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  NEED(p != MAP_FAILED);
  fill(p, kPage, 10);
  checkpoint_here();
  CHECK(filled(p, kPage, 10));
}
static void hugetlb(void) {
  unsigned char *p = map(4 * kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_HUGETLB);
  fill(p, 4 * kMiB, 11);
  checkpoint_here();
  CHECK(filled(p, 4 * kMiB, 11));
}
static void posix_shm(void) {
  char name[64];
  snprintf(name, sizeof name, "/ckpt-feature-%d", (int)getpid());
  int fd = shm_open(name, O_RDWR | O_CREAT, 0600);
  NEED(fd >= 0 && ftruncate(fd, kMiB) == 0);
  unsigned char *p = mmap(NULL, kMiB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  fill(p, kMiB, 12);
  checkpoint_here();
  CHECK(filled(p, kMiB, 12) && shm_unlink(name) == 0);
}
static unsigned char *changing;
static void change(void) { fill(changing, kMiB, 99); }
static void map_changing(int fd) {
  NEED(fd >= 0 && ftruncate(fd, kMiB) == 0);
  changing = mmap(NULL, kMiB, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  fill(changing, kMiB, 12);
}
static void posix_shm_changed(void) {
  char name[64], path[80];
  snprintf(name, sizeof name, "/ckpt-feature-%d", (int)getpid());
  snprintf(path, sizeof path, "/dev/shm%s", name);
  map_changing(shm_open(name, O_RDWR | O_CREAT, 0600));
  write_file("volatile", path);
  checkpoint_here_and_change(change);
  CHECK(shm_unlink(name) == 0 && filled(changing, kMiB, 12));
}
static void shared_file_changed(void) {
  map_changing(open("mapped", O_RDWR | O_CREAT, 0600));
  checkpoint_here_and_change(change);
  CHECK(filled(changing, kMiB, 12));
}
static void locked(void) {
  unsigned char *p = map(kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE);
  fill(p, kMiB, 13);
  NEED(mlock(p, kMiB) == 0);
  checkpoint_here();
  CHECK(filled(p, kMiB, 13));
}
static void advice(void) {
  unsigned char *p = map(kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE);
  p[0] = 5;
  NEED(madvise(p, kPage, MADV_WIPEONFORK) == 0);
  checkpoint_here();
  pid_t child = fork();
  if (child == 0) _exit(p[0]);
  int status;
  CHECK(p[0] == 5 && waitpid(child, &status, 0) == child && status == 0);
}
static void grows_down(void) {
  unsigned char *p = map(16 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_GROWSDOWN);
  p[16 * kPage - 1] = 9;
  checkpoint_here();
  CHECK(p[16 * kPage - 1] == 9);
}
static void executable(void) {
  unsigned char *p = map(kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE);
  static const unsigned char kReturn42[] = {0xb8, 42, 0, 0, 0, 0xc3};  // mov eax, 42; ret
  memcpy(p, kReturn42, sizeof kReturn42);
  CHECK(mprotect(p, kPage, PROT_READ | PROT_EXEC) == 0);
  checkpoint_here();
  CHECK(((int (*)(void))(void *)p)() == 42);
}
static void protection_key(void) {
  int key = pkey_alloc(0, 0);
  NEED(key >= 0);
  unsigned char *p = map(kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE);
  p[0] = 4;
  CHECK(pkey_mprotect(p, kPage, PROT_READ | PROT_WRITE, key) == 0);
  checkpoint_here();
  CHECK(p[0] == 4 && pkey_set(key, PKEY_DISABLE_WRITE) == 0 && pkey_get(key) == PKEY_DISABLE_WRITE);
}
static void copy_on_write(void) {
  unsigned char *p = map(kMiB, PROT_READ | PROT_WRITE, MAP_PRIVATE);
  fill(p, kMiB, 14);
  pid_t child = fork();
  if (child == 0) {
    fill(p, kPage, 15);
    while (access("child", F_OK) != 0) nap(5);
    _exit(filled(p, kPage, 15) ? 0 : 1);
  }
  checkpoint_here();
  CHECK(filled(p, kMiB, 14));
  write_file("child", "");
  int status;
  CHECK(waitpid(child, &status, 0) == child && status == 0);
}
static void device_zero(void) {
  int fd = open("/dev/zero", O_RDWR);
  unsigned char *p = mmap(NULL, kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
  NEED(p != MAP_FAILED);
  p[5] = 5;
  checkpoint_here();
  CHECK(p[5] == 5 && p[6] == 0);
}

// Larger than CRIU's stream can count in one piece, with contents at both ends.
static void sparse_9t(void) {
  size_t size = (size_t)9 << 40, far = size - (1 << 20);
  char *p =
      mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  NEED(p != MAP_FAILED);
  madvise(p, size, MADV_NOHUGEPAGE);
  p[0] = 1;
  p[far] = 2;
  checkpoint_here();
  CHECK(p[0] == 1 && p[far] == 2 && p[far + 4096] == 0 && p[size / 2] == 0);
}
static void kept_file_lost(void) {
  CHECK(mkdir("tables", 0700) == 0);
  int fd = open("tables/table", O_RDWR | O_CREAT, 0600);
  CHECK(ftruncate(fd, 32768) == 0);
  char *p = mmap(NULL, 32768, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  fill(p, 32768, 7);
  char path[4200];
  CHECK(getcwd(path, 4096) != NULL);
  write_file("volatile", strcat(path, "/tables/table"));
  checkpoint_here();
  struct stat st;
  CHECK(filled(p, 32768, 7) && stat("tables/table", &st) == 0 && (st.st_mode & 0777) == 0600);
}
static int locked_kib(const char *p) {
  char line[512], head[40];
  int found = 0, locked = -1;
  snprintf(head, sizeof head, "%lx-", (unsigned long)p);
  FILE *f = fopen("/proc/self/smaps", "r");
  while (f && locked < 0 && fgets(line, sizeof line, f)) {
    found |= strncmp(line, head, strlen(head)) == 0;
    if (found && strncmp(line, "VmFlags:", 8) == 0) locked = strstr(line, " lo") != NULL;
  }
  fclose(f);
  return locked;
}
static void lock_future(void) {
  NEED(mlockall(MCL_CURRENT | MCL_FUTURE) == 0);
  checkpoint_here();
  char *p = mmap(NULL, 4096, PROT_READ, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  CHECK(p != MAP_FAILED && locked_kib(p) == 1);
}
static int policy_of(void *at) {
  int policy = -1;
  return syscall(SYS_get_mempolicy, &policy, NULL, 0, at, at ? MPOL_F_ADDR : 0) == 0 ? policy : -1;
}
static void memory_policy(void) {
  unsigned long nodes = 1;
  NEED(syscall(SYS_set_mempolicy, MPOL_INTERLEAVE, &nodes, 64) == 0);
  char *p = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  NEED(syscall(SYS_mbind, p, 1 << 20, MPOL_BIND, &nodes, 64, 0) == 0);
  memset(p, 1, 1 << 20);
  checkpoint_here();
  CHECK(policy_of(NULL) == MPOL_INTERLEAVE && policy_of(p) == MPOL_BIND);
}
static void merged_pages(void) {
  NEED(prctl(67, 1, 0, 0, 0) == 0);  // PR_SET_MEMORY_MERGE
  checkpoint_here();
  CHECK(prctl(68, 0, 0, 0, 0) == 1);
}
FEATURES({"anonymous", anonymous}, {"huge_pages", huge_pages}, {"sparse_100g", sparse_100g},
         {"reserved", reserved}, {"read_only_file", read_only_file},
         {"many_mappings", many_mappings}, {"shared_by_fork", shared_by_fork},
         {"file_shared", file_shared}, {"file_private", file_private},
         {"file_deleted", file_deleted}, {"mapped_hard_link", mapped_hard_link}, {"memfd", memfd},
         {"memfd_seals", memfd_seals}, {"secret_memory", secret_memory}, {"hugetlb", hugetlb},
         {"posix_shm", posix_shm}, {"posix_shm_changed", posix_shm_changed},
         {"posix_shm_lost", posix_shm_changed}, {"shared_file_changed", shared_file_changed},
         {"locked", locked}, {"advice", advice}, {"grows_down", grows_down},
         {"executable", executable}, {"protection_key", protection_key},
         {"copy_on_write", copy_on_write}, {"device_zero", device_zero}, {"sparse_9t", sparse_9t},
         {"kept_file_lost", kept_file_lost}, {"lock_future", lock_future},
         {"memory_policy", memory_policy}, {"merged_pages", merged_pages})
