// SPDX-License-Identifier: Apache-2.0
//
// Questions about what a checkpoint does to the process, and about host memory.
#include <signal.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>

#include "probe.h"

namespace probe {
namespace {

namespace fs = std::filesystem;

struct Range {
  unsigned long begin = 0, end = 0;
  std::string permissions, path;
};

std::vector<Range> mappings() {
  std::vector<Range> all;
  std::ifstream in("/proc/self/maps");
  for (std::string line; std::getline(in, line);) {
    Range r;
    char permissions[8] = {}, path[256] = {};
    std::sscanf(line.c_str(), "%lx-%lx %7s %*s %*s %*s %255s", &r.begin, &r.end, permissions, path);
    r.permissions = permissions;
    r.path = path;
    all.push_back(r);
  }
  return all;
}

// Device ranges are shared mappings. A placeholder has no access.
void ask_about_holes() {
  std::vector<Range> before = mappings();
  leave();
  std::vector<Range> away = mappings();
  check(restore({}), "cuCheckpointProcessRestore");
  unlock();
  size_t shared = 0, gone = 0, held = 0;
  for (const Range &r : before) {
    if (r.permissions.back() != 's') continue;
    ++shared;
    auto covers = [&](const Range &n) { return n.begin <= r.begin && n.end >= r.end; };
    auto now = std::find_if(away.begin(), away.end(), covers);
    if (now == away.end()) ++gone;
    if (now != away.end() && now->permissions == "---p") ++held;
  }
  std::printf("%zu shared ranges before; %zu unmapped, %zu held by placeholders\n", shared, gone,
              held);
}

void ask_about_descriptors() {
  leave();
  std::multiset<std::string> open;
  for (const auto &fd : fs::directory_iterator("/proc/self/fd")) {
    std::error_code ec;
    std::string target = fs::read_symlink(fd.path(), ec).string();
    if (target.starts_with("/dev/nv")) open.insert(target);
  }
  auto tasks = fs::directory_iterator("/proc/self/task");
  auto threads = std::distance(begin(tasks), end(tasks));
  check(restore({}), "cuCheckpointProcessRestore");
  unlock();
  for (const std::string &path : open) std::printf("open: %s\n", path.c_str());
  std::printf("%zu device files are open while it is checkpointed; %zd threads\n", open.size(),
              static_cast<ssize_t>(threads));
  if (!open.empty()) std::exit(1);
}

// CRIU's restore makes private mappings writable; Linux refuses that where one without
// MAP_NORESERVE is larger than its memory.
void ask_about_reservation() {
  size_t total = 0;
  CHECKED_AS(cuDeviceTotalMem_v2, cuDeviceTotalMem, 3020, &total, 0);
  CUdeviceptr at = reserve(4 * (total >> 21 << 21));
  std::ifstream in("/proc/self/smaps");
  bool inside = false;
  std::string flags = "no mapping of this process";
  for (std::string line; std::getline(in, line);) {
    unsigned long begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%lx-%lx ", &begin, &end) == 2) inside = begin <= at && at < end;
    if (inside && line.starts_with("VmFlags:")) flags = line;
  }
  struct sysinfo s {};
  sysinfo(&s);
  std::printf("%zu GiB reserved; %lu GiB of host memory; %s\n", 4 * total >> 30,
              s.totalram * s.mem_unit >> 30, flags.c_str());
}

void ask_about_rdma() {
  int capable = 0;
  CHECKED(cuDeviceGetAttribute, 2000, &capable,
          CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED, 0);
  if (!capable) skip("the device has no GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED");
  CUmemAllocationProp prop = on_device();
  prop.allocFlags.gpuDirectRDMACapable = 1;
  CUmemGenericAllocationHandle handle;
  CHECKED(cuMemCreate, 10020, &handle, kBytes, &prop, 0);
  std::puts("cuMemCreate gives such memory");
}

void ask_about_pinned_file() {
  constexpr size_t kFile = 1u << 30;
  int fd = memfd_create("probe", 0);
  if (fd < 0 || ftruncate(fd, kFile) != 0) fail("there is no memory file");
  void *p = mmap(nullptr, kFile, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, fd, 0);
  if (p == MAP_FAILED) fail("1 GiB of host memory is not there");
  double begin = seconds();
  CHECKED_AS(cuMemHostRegister_v2, cuMemHostRegister, 6050, p, kFile, 0);
  double locked = seconds();
  CUdeviceptr d = 0;
  CHECKED_AS(cuMemAlloc_v2, cuMemAlloc, 3020, &d, kFile);
  double times[3] = {seconds()};
  CHECKED_AS(cuMemcpyHtoD_v2, cuMemcpyHtoD, 3020, d, p, kFile);
  times[1] = seconds();
  CHECKED_AS(cuMemcpyDtoH_v2, cuMemcpyDtoH, 3020, p, d, kFile);
  times[2] = seconds();
  std::printf("page-locked at %.1f GB/s; %.1f GB/s out, %.1f GB/s in\n", 1.07 / (locked - begin),
              1.07 / (times[2] - times[1]), 1.07 / (times[1] - times[0]));
}

void ask_about_cold() {
  CUdeviceptr p = 0;
  CHECKED_AS(cuMemAlloc_v2, cuMemAlloc, 3020, &p, kBytes);
  fill(p, 0x5eed);
  leave();
  sleep(5);  // without persistence mode the kernel's driver lets an unused GPU go
  check(restore({}), "cuCheckpointProcessRestore");
  unlock();
  if (!holds(p, 0x5eed)) fail("its contents have changed");
  std::puts("restored after 5 s without another program (persistence mode: see the report)");
}

// A process that takes what is free. It must start before this one has initialised the driver, so
// it is another run of this program.
pid_t start_hog(int ready[2]) {
  pid_t child = fork();
  if (child != 0) return child;
  dup2(ready[1], 3);
  execl("/proc/self/exe", "probe", "hog", nullptr);
  _exit(127);
}

void hog() {
  size_t free_bytes = 0, total = 0;
  for (;;) {
    CHECKED_AS(cuMemGetInfo_v2, cuMemGetInfo, 3020, &free_bytes, &total);
    CUdeviceptr p = 0;
    size_t piece = std::max<size_t>(free_bytes / 2, 4 << 20);
    if (CALL_AS(cuMemAlloc_v2, cuMemAlloc, 3020, &p, piece) != CUDA_SUCCESS && piece == 4 << 20)
      break;
  }
  (void)!write(3, "x", 1);
  pause();
}

void ask_about_out_of_memory() {
  CUdeviceptr p = 0;
  CHECKED_AS(cuMemAlloc_v2, cuMemAlloc, 3020, &p, kBytes);
  fill(p, 0x5eed);
  leave();
  int ready[2];
  if (pipe(ready) != 0) fail("no pipe");
  pid_t child = start_hog(ready);
  close(ready[1]);
  char byte;
  if (read(ready[0], &byte, 1) != 1) fail("the other process could not take the memory");
  CUresult without = restore({});
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  sleep(1);
  CUresult with = without == CUDA_SUCCESS ? CUDA_SUCCESS : restore({});
  std::printf("without room: %s; then with room: %s\n", error_name(without).c_str(),
              error_name(with).c_str());
  if (without != CUDA_SUCCESS && with != CUDA_SUCCESS)
    std::puts("it is final: a program is lost if room is not checked before");
}

}  // namespace

void ask_about_process(const std::string &question) {
  if (question == "holes") return ask_about_holes();
  if (question == "descriptors") return ask_about_descriptors();
  if (question == "reservation") return ask_about_reservation();
  if (question == "rdma") return ask_about_rdma();
  if (question == "pinned-file") return ask_about_pinned_file();
  if (question == "cold") return ask_about_cold();
  if (question == "hog") return hog();
  if (question == "out-of-memory") return ask_about_out_of_memory();
  fail("unknown question");
}

}  // namespace probe
