// SPDX-License-Identifier: Apache-2.0
#include "slicing/whole_kernels.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <mutex>
#include <unordered_set>

#include "common/base/log.h"
#include "common/base/unique_fd.h"
#include "slicing/settings.h"

namespace ckpt::slicing {
namespace {

constexpr size_t kMostLines = 100'000;  // of the file

struct Known {
  std::mutex mutex;
  std::unordered_set<u64> hashes;
};

Known &known() {
  static Known *const kKnown = [] {
    auto *k = new Known;
    std::ifstream file(settings().memory_path);
    std::string line;
    for (size_t i = 0; i < kMostLines && std::getline(file, line); ++i)
      k->hashes.insert(std::strtoull(line.substr(0, 16).c_str(), nullptr, 16));
    return k;
  }();
  return *kKnown;
}

// One write(2), so that lines of several programs do not mix.
void append(const std::string &path, const std::string &line) {
  UniqueFd fd(::open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600));
  if (!fd || ::write(fd.get(), line.data(), line.size()) != static_cast<ssize_t>(line.size()))
    log::warn("cannot write {}: {}", path, std::strerror(errno));
}

}  // namespace

bool is_remembered_whole(u64 hash) {
  Known &k = known();
  std::lock_guard lock(k.mutex);
  return k.hashes.contains(hash);
}

void remember_whole(u64 hash, std::string_view name) {
  Known &k = known();
  {
    std::lock_guard lock(k.mutex);
    if (!k.hashes.insert(hash).second) return;
  }
  if (const std::string &path = settings().memory_path; !path.empty())
    append(path, fmt::format("{:016x} {}\n", hash, name));
}

}  // namespace ckpt::slicing
