// SPDX-License-Identifier: Apache-2.0
//
// What an epoll or inotify descriptor of a process watches (proc_pid_fdinfo(5)).
#pragma once

#include <sys/types.h>

#include <vector>

#include "common/base/bytes.h"

namespace ckpt::tools {

struct EpollTarget {
  int fd;          // by which it was added; it may be closed or another file now
  u64 inode;       // 0 before Linux 4.13
  u32 occurrence;  // among those that were added by this number: for kcmp(2)
};
std::vector<EpollTarget> epoll_targets(pid_t pid, int epoll);

// The inodes that an inotify descriptor watches.
std::vector<u64> inotify_targets(pid_t pid, int inotify);

// True for an inotify or fanotify descriptor whose events the process has not read.
bool has_unread_events(pid_t pid, int fd);

}  // namespace ckpt::tools
