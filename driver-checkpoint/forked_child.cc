// SPDX-License-Identifier: Apache-2.0
#include "driver-checkpoint/forked_child.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstring>
#include <mutex>
#include <new>
#include <set>
#include <string_view>

#include "common/base/driver_files.h"
#include "common/base/log.h"
#include "common/base/words.h"
#include "common/proc/file.h"
#include "common/proc/maps.h"
#include "common/proc/status.h"

namespace ckpt::cuda {
namespace {

struct DeviceMapping {
  u64 begin = 0, end = 0;
  int protection = 0;
  bool keeps_contents = false;  // page-locked host memory
};

// Never destroyed: a program may fork while it exits.
struct DriverFiles {
  std::mutex mutex;
  std::set<int> of_cuda;  // descriptors that were opened while OpensDevices existed
  // As of the last fork.
  std::vector<DeviceMapping> mappings;
  std::vector<int> descriptors;
};
DriverFiles &files() {
  static DriverFiles *const kFiles = new DriverFiles;
  return *kFiles;
}

// ---- names, also in a child

// "/proc/self/fd/9", "/proc/self/map_files/7f100000-7f104000"
class ProcLink {
 public:
  explicit ProcLink(int fd) { append("/proc/self/fd/").append(static_cast<u64>(fd), 10); }
  explicit ProcLink(const DeviceMapping &m) {
    append("/proc/self/map_files/").append(m.begin, 16).append("-").append(m.end, 16);
  }
  bool leads_to_device() const {
    std::array<char, 64> target;
    ssize_t n = ::readlink(path_.data(), target.data(), target.size());
    return n > 0 && is_cuda_device_file({target.data(), static_cast<size_t>(n)});
  }

 private:
  ProcLink &append(std::string_view text) {
    length_ += text.copy(path_.data() + length_, path_.size() - length_);
    return *this;
  }
  ProcLink &append(u64 number, int base) {
    char *end =
        std::to_chars(path_.data() + length_, path_.data() + path_.size(), number, base).ptr;
    length_ = static_cast<size_t>(end - path_.data());
    return *this;
  }

  std::array<char, 96> path_{};  // longer than any of these names
  size_t length_ = 0;
};

// ---- the parent

std::vector<int> device_descriptors() {
  std::vector<int> all = proc::own_descriptors().value_or(std::vector<int>());
  std::erase_if(all, [](int fd) { return !ProcLink(fd).leads_to_device(); });
  return all;
}

int protection_of(std::string_view permissions) {
  return (permissions[0] == 'r' ? PROT_READ : 0) | (permissions[1] == 'w' ? PROT_WRITE : 0);
}

// Only the lines of devices are parsed. True: NVML is loaded.
bool read_mappings(std::vector<DeviceMapping> &found, bool (*has_contents)(u64, u64)) {
  bool nvml = false;
  std::string text = proc::text(proc::kSelf, "maps");
  for (std::string_view line : lines_of(text)) {
    std::string_view path = line.substr(std::min(line.find('/'), line.size()));
    nvml = nvml || is_nvml_file(path);
    if (!is_cuda_device_file(path)) continue;
    if (std::optional<ProcMapping> m = parse_proc_mapping(std::string(line)))
      found.push_back(
          {m->begin, m->end, protection_of(m->permissions), has_contents(m->begin, m->end)});
  }
  return nvml;
}

// ---- the child

// The processor may not be able to read memory that the driver is just giving up. write(2) then
// fails, where a copy in this process would fault.
bool copy_some(const int (&pipe)[2], const char *from, char *to, size_t bytes) {
  ssize_t in = ::write(pipe[1], from, bytes);
  for (ssize_t out = 0, n = 0; out < in; out += n)
    if (n = ::read(pipe[0], to + out, static_cast<size_t>(in - out)); n <= 0) return false;
  return in == static_cast<ssize_t>(bytes);
}

// What cannot be copied stays zero.
void copy_contents(const DeviceMapping &m, char *to) {
  constexpr size_t kPiece = 64 << 10;  // a pipe holds as much
  int pipe[2];
  if (::pipe(pipe) != 0) return;
  const char *from = reinterpret_cast<const char *>(m.begin);
  for (size_t at = 0, bytes = m.end - m.begin; at < bytes; at += kPiece)
    if (!copy_some(pipe, from + at, to + at, std::min(kPiece, bytes - at))) break;
  ::close(pipe[0]);
  ::close(pipe[1]);
}

void replace(const DeviceMapping &m) {
  constexpr int kFlags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  void *at = reinterpret_cast<void *>(m.begin);
  size_t bytes = m.end - m.begin;
  if (!m.keeps_contents) {
    (void)::mmap(at, bytes, m.protection, kFlags | MAP_FIXED, -1, 0);
    return;
  }
  void *copy = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, kFlags, -1, 0);
  if (copy == MAP_FAILED) return;
  copy_contents(m, static_cast<char *>(copy));
  (void)::mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, at);
}

}  // namespace

OpensDevices::OpensDevices() : before_(device_descriptors()) {}

OpensDevices::~OpensDevices() {
  std::vector<int> now = device_descriptors();
  std::lock_guard lock(files().mutex);
  std::erase_if(files().of_cuda, [&](int fd) { return std::ranges::find(now, fd) == now.end(); });
  for (int fd : now)
    if (std::ranges::find(before_, fd) == before_.end()) files().of_cuda.insert(fd);
}

// Without memory for the notes, the child is as the driver leaves it, and a dump is refused.
void note_before_fork(bool (*has_contents)(u64 begin, u64 end)) {
  DriverFiles &all = files();
  std::lock_guard lock(all.mutex);
  all.mappings.clear();
  all.descriptors.clear();
  try {
    all.descriptors = device_descriptors();
    if (read_mappings(all.mappings, has_contents))
      std::erase_if(all.descriptors, [&](int fd) { return !all.of_cuda.contains(fd); });
  } catch (const std::bad_alloc &) {
    log::warn("there is no memory to note the CUDA driver's mappings for a forked child");
  }
}

// Descriptors first: copies need two.
void mend_forked_child() {
  for (int fd : files().descriptors)
    if (ProcLink(fd).leads_to_device()) ::close(fd);
  for (const DeviceMapping &m : files().mappings)
    if (ProcLink(m).leads_to_device()) replace(m);
}

}  // namespace ckpt::cuda
