// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/waiting_locks.h"

#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <cstdio>
#include <sstream>

#include "common/base/file_text.h"
#include "common/base/log.h"
#include "common/proc/status.h"

namespace ckpt::tools {
namespace {

constexpr int kPatienceMs = 2000;

std::string name_of_file(const ImageManifest &m, u64 inode) {
  struct stat st {};
  for (const ImageManifest::File &f : m.files)
    if (::stat(f.path.c_str(), &st) == 0 && st.st_ino == inode) return f.path;
  return fmt::format("of inode {}", inode);
}

}  // namespace

// "1: FLOCK  ADVISORY  WRITE 12 08:01:34 0 EOF" holds; "1: -> FLOCK ADVISORY WRITE …" waits for it.
std::vector<LockWait> waits_in(std::string_view proc_locks) {
  std::vector<LockWait> all;
  std::istringstream lines{std::string(proc_locks)};
  std::string holder_number;
  pid_t holder = 0;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream in(line);
    std::string number, arrow, kind, mode, access, file;
    in >> number >> arrow;
    bool waits = arrow == "->";
    if (waits) in >> kind;
    pid_t pid = 0;
    if (!(in >> mode >> access >> pid >> file)) continue;
    if (!waits) {
      holder_number = number;
      holder = pid;
    } else if (number == holder_number) {
      size_t colon = file.rfind(':');
      u64 inode = colon == file.npos ? 0 : std::strtoull(file.c_str() + colon + 1, nullptr, 10);
      all.push_back({pid, holder, inode});
    }
  }
  return all;
}

void wait_and_name_locks(int events, pid_t stem, const ImageManifest &m) {
  bool said = false;
  for (pollfd p{events, POLLIN, 0}; ::poll(&p, 1, kPatienceMs) == 0;) {
    if (said) continue;
    std::vector<pid_t> ours = proc::tree_of(stem);
    for (const LockWait &w : waits_in(file_text("/proc/locks").value_or("")))
      if (!said && std::ranges::find(ours, w.waits) != ours.end()) {
        log::warn("the restore waits for the program's lock on the file {}, which process {} holds",
                  name_of_file(m, w.inode), w.holds);
        said = true;
      }
  }
}

}  // namespace ckpt::tools
