// SPDX-License-Identifier: Apache-2.0
#include "tools/proc/watches.h"

#include <sys/ioctl.h>

#include <map>
#include <string>

#include "common/base/words.h"
#include "common/proc/file.h"
#include "tools/proc/descriptors.h"

namespace ckpt::tools {
namespace {

u64 hexadecimal(std::string_view text) { return leading_number(text, u64{0}, 16); }

}  // namespace

// "tfd:        6 events:       19 data:                6  pos:0 ino:3ffd sdev:9"
std::vector<EpollTarget> epoll_targets(pid_t pid, int epoll) {
  std::vector<EpollTarget> targets;
  std::map<int, u32> seen;
  std::string info = proc::fdinfo(pid, epoll);
  for (std::string_view line : lines_of(info)) {
    if (!line.starts_with("tfd:")) continue;
    int fd = leading_number(line.substr(4), 0);
    size_t inode = line.find("ino:");
    targets.push_back(
        {fd, inode == line.npos ? 0 : hexadecimal(line.substr(inode + 4)), seen[fd]++});
  }
  return targets;
}

// "inotify wd:3 ino:9e7e sdev:800013 mask:800afce ignored_mask:0 fhandle-bytes:8 …"
std::vector<u64> inotify_targets(pid_t pid, int inotify) {
  std::vector<u64> inodes;
  std::string info = proc::fdinfo(pid, inotify);
  for (std::string_view line : lines_of(info))
    if (size_t at = line.find(" ino:"); line.starts_with("inotify ") && at != line.npos)
      inodes.push_back(hexadecimal(line.substr(at + 5)));
  return inodes;
}

bool has_unread_events(pid_t pid, int fd) {
  UniqueFd watch = duplicate_descriptor(pid, fd);
  int bytes = 0;
  return watch && ::ioctl(watch.get(), FIONREAD, &bytes) == 0 && bytes > 0;
}

}  // namespace ckpt::tools
