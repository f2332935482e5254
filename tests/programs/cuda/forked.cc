// SPDX-License-Identifier: Apache-2.0
//
// Children of a program with CUDA. Each prints what it has of the device, waits while the file
// "pause" exists, and checks that page-locked memory is as it was at the fork, that no entry
// reaches the driver, and that exit() works.
//
//   forked fork|grandchild|_Fork|clone|spawn   makes such a child
//   forked later                               makes one when the file "fork" is there
//   forked nvml-before                         NVML is open in the parent at the fork
//   forked nvml-parent                         the same, with a child of posix_spawn()
//   forked nvml-inside|nvml-closed             NVML is open in the child; was closed there
//   forked kept                                calls no entry in the child
//   forked nvml                                uses NVML alone
#include <dlfcn.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "driver_check.h"

namespace fs = std::filesystem;

static constexpr size_t kBytes = 1 << 20;
static const char *const kDevice = "softcuda-device";

// ---- every entry, by its symbol and as cuGetProcAddress returns it

struct Entry {
  const char *symbol, *name;
  int version;
  bool per_thread;
  void *linked, *asked;
};
static std::vector<Entry> entries = {
#define CU_ENTRY(name, version, symbol, per_thread) \
  {#symbol, #name, version, per_thread, nullptr, nullptr},
#include "cuda/entries.api"
#undef CU_ENTRY
};

static void find_entries() {
  for (Entry &e : entries) {
    e.linked = dlsym(RTLD_DEFAULT, e.symbol);
    CUdriverProcAddressQueryResult found;
    unsigned long long flags = e.per_thread ? CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM : 0;
    cuGetProcAddress(e.name, &e.asked, e.version, flags, &found);
  }
}

static bool refuses(void *entry) {
  using Any = CUresult (*)(void *, void *, void *, void *, void *, void *, void *, void *, void *,
                           void *, void *);
  void *n = nullptr;
  return entry == nullptr || reinterpret_cast<Any>(entry)(n, n, n, n, n, n, n, n, n, n, n) ==
                                 CUDA_ERROR_NOT_INITIALIZED;
}

// The three that need no device do not.
static void check_entries() {
  size_t asked = 0;
  for (const Entry &e : entries) {
    if (std::strstr(e.symbol, "cuGetError") == e.symbol ||
        std::strcmp(e.symbol, "cuDriverGetVersion") == 0)
      continue;
    CHECK(e.linked != nullptr);
    if (!refuses(e.linked) || !refuses(e.asked))
      std::fprintf(stderr, "%s reaches the driver\n", e.symbol), std::exit(1);
    asked += e.asked != nullptr;
  }
  CHECK(asked > 400);
  int version = 0;
  OK(cuDriverGetVersion(&version));
  CHECK(version >= 13000);
}

// ---- what a process has of the device

static int mappings() {
  std::ifstream maps("/proc/self/maps");
  int n = 0;
  for (std::string line; std::getline(maps, line);) n += line.find(kDevice) != line.npos;
  return n;
}

static int descriptors() {
  int n = 0;
  std::error_code ignored;
  for (auto &d : fs::directory_iterator("/proc/self/fd"))
    n += fs::read_symlink(d.path(), ignored).string().find(kDevice) != std::string::npos;
  return n;
}

// ---- processes

static int nvml(const char *function) {
  static void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  CHECK(library != nullptr);
  return reinterpret_cast<int (*)()>(dlsym(library, function))();
}

static void wait_while(const char *file, bool there) {
  while ((access(file, F_OK) == 0) == there) usleep(2000);
}

static std::string mode;

[[noreturn]] static void child(const char *page_locked) {
  if (mode == "nvml-inside" || mode == "nvml-closed") CHECK(nvml("nvmlInit_v2") == 0);
  if (mode == "nvml-closed") CHECK(nvml("nvmlShutdown") == 0);
  if (mode == "later") check_entries();
  std::printf("child: %d mappings, %d descriptors\n", mappings(), descriptors());
  std::fflush(stdout);
  wait_while("pause", true);
  CHECK(std::all_of(page_locked, page_locked + kBytes, [](char c) { return c == 'x'; }));
  if (mode == "nvml-inside") CHECK(nvml("nvmlShutdown") == 0);
  if (mode != "kept") check_entries();
  std::exit(7);
}

[[noreturn]] static void parent_of_child(const char *page_locked) {
  pid_t pid = fork();
  if (pid == 0) child(page_locked);
  int status = 0;
  CHECK(waitpid(pid, &status, 0) == pid && WIFEXITED(status));
  std::exit(WEXITSTATUS(status));
}

static pid_t spawned() {
  pid_t pid = 0;
  char *arguments[] = {
      const_cast<char *>("sh"), const_cast<char *>("-c"),
      const_cast<char *>("echo 'child: spawned'; while [ -e pause ]; do sleep 0.01; done; exit 7"),
      nullptr};
  CHECK(posix_spawnp(&pid, "sh", nullptr, nullptr, arguments, environ) == 0);
  return pid;
}

static pid_t forked(const char *page_locked) {
  if (mode == "spawn" || mode == "nvml-parent") return spawned();
  if (mode == "later") wait_while("fork", false);
  pid_t pid =
      mode == "_Fork" ? _Fork()
      : mode == "clone"
          ? static_cast<pid_t>(syscall(SYS_clone, SIGCHLD, nullptr, nullptr, nullptr, nullptr))
          : fork();
  if (pid == 0 && mode == "grandchild") parent_of_child(page_locked);
  if (pid == 0) child(page_locked);
  return pid;
}

static void only_nvml() {
  CHECK(nvml("nvmlInit_v2") == 0);
  std::puts("open");
  std::fflush(stdout);
  wait_while("pause", true);
  CHECK(nvml("nvmlShutdown") == 0);
  std::puts("PASSED");
}

int main(int, char **argv) {
  mode = argv[1];
  if (mode == "nvml") return only_nvml(), 0;
  if (mode == "nvml-before" || mode == "nvml-parent") CHECK(nvml("nvmlInit_v2") == 0);
  CUcontext context;
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  OK(cuCtxSetCurrent(context));
  CUdeviceptr p;
  OK(cuMemAlloc(&p, kBytes));
  OK(cuMemsetD8(p, 'd', kBytes));
  char *page_locked;
  OK(cuMemHostAlloc(reinterpret_cast<void **>(&page_locked), kBytes, 0));
  std::fill_n(page_locked, kBytes, 'x');
  find_entries();
  std::puts("ready");
  std::fflush(stdout);
  pid_t pid = forked(page_locked);
  std::fill_n(page_locked, kBytes, 'y');
  int status = 0;
  CHECK(waitpid(pid, &status, 0) == pid);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
  std::vector<char> host(kBytes);
  OK(cuMemcpyDtoH(host.data(), p, kBytes));
  CHECK(std::all_of(host.begin(), host.end(), [](char c) { return c == 'd'; }));
  std::puts("PASSED");
  return 0;
}
