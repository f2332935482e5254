// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/waiting_locks.h"

#include <poll.h>
#include <sys/stat.h>

#include <algorithm>

#include "common/base/log.h"
#include "common/base/words.h"
#include "common/proc/file.h"
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
  std::string_view holder_number;
  pid_t holder = 0;
  for (std::string_view line : lines_of(proc_locks)) {
    enum { kNumber = 0, kArrow = 1, kPid = 4, kFile = 5 };
    std::vector<std::string_view> words = words_of(line);
    bool waits = words.size() > kArrow && words[kArrow] == "->";
    if (waits) words.erase(words.begin() + kArrow);
    pid_t pid = 0;
    if (words.size() <= kFile || !parse_number(words[kPid], pid)) continue;
    if (!waits) {
      holder_number = words[kNumber];
      holder = pid;
    } else if (words[kNumber] == holder_number) {
      std::string_view file = words[kFile];
      all.push_back({pid, holder, leading_number(file.substr(file.rfind(':') + 1), u64{0})});
    }
  }
  return all;
}

void wait_and_name_locks(int events, pid_t stem, const ImageManifest &m) {
  bool said = false;
  for (pollfd p{events, POLLIN, 0}; ::poll(&p, 1, kPatienceMs) == 0;) {
    if (said) continue;
    std::vector<pid_t> ours = proc::tree_of(stem);
    for (const LockWait &w : waits_in(proc::text_of_machine("locks")))
      if (!said && std::ranges::find(ours, w.waits) != ours.end()) {
        log::warn("the restore waits for the program's lock on the file {}, which process {} holds",
                  name_of_file(m, w.inode), w.holds);
        said = true;
      }
  }
}

}  // namespace ckpt::tools
