// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/watched.h"

#include <linux/kcmp.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <map>
#include <set>

#include "tools/proc/descriptors.h"
#include "tools/proc/watches.h"

namespace ckpt::tools {
namespace {

struct Holder {
  pid_t pid;
  int fd;
};

struct OpenFiles {
  std::map<pid_t, std::vector<Descriptor>> descriptors;
  std::multimap<u64, Holder> by_inode;
  std::set<u64> unlinked;  // inodes of files and folders
};

OpenFiles open_files(const Target &target) {
  OpenFiles all;
  for (const Process &p : target.processes)
    for (const Descriptor &d : all.descriptors[p.pid] = descriptors_of(p.pid)) {
      using Kind = Descriptor::Kind;
      all.by_inode.insert({d.inode, {p.pid, d.fd}});
      if (d.deleted && (d.kind == Kind::File || d.kind == Kind::Folder))
        all.unlinked.insert(d.inode);
    }
  return all;
}

// Many kinds of descriptors share one inode, so the kernel is asked. It may not know (-1).
bool is_target(const Holder &h, pid_t pid, int epoll, const EpollTarget &t) {
  kcmp_epoll_slot slot{static_cast<u32>(epoll), static_cast<u32>(t.fd), t.occurrence};
  return ::syscall(SYS_kcmp, h.pid, pid, KCMP_EPOLL_TFD, h.fd, &slot) <= 0;
}

bool is_open(const OpenFiles &files, pid_t pid, int epoll, const EpollTarget &t) {
  auto [begin, end] = files.by_inode.equal_range(t.inode);
  for (auto it = begin; it != end; ++it)
    if (is_target(it->second, pid, epoll, t)) return true;
  return false;
}

std::string refused(const Descriptor &d, pid_t pid, const OpenFiles &files) {
  if (d.target == "anon_inode:[eventpoll]")
    for (const EpollTarget &t : epoll_targets(pid, d.fd))
      if (t.inode != 0 && !is_open(files, pid, d.fd, t))
        return fmt::format(
            "an epoll descriptor that watches a file which only a process outside of the program "
            "has open (there it was descriptor {}): close it in the program that starts ckpt-run, "
            "or start with `{}<&-`",
            t.fd, d.fd);
  if (d.target == "anon_inode:[fanotify]" && has_unread_events(pid, d.fd))
    return "a fanotify descriptor with unread events, which would be lost: run ckpt-dump again "
           "when "
           "the program has read them";
  if (d.target == "anon_inode:inotify" || d.target == "inotify")
    for (u64 inode : inotify_targets(pid, d.fd))
      if (files.unlinked.contains(inode))
        return "an inotify descriptor that watches an unlinked file or folder, which CRIU cannot "
               "watch again: remove the watch, or close the file, first";
  return {};
}

}  // namespace

void check_watched(const Target &target, Closables &reasons) {
  OpenFiles files = open_files(target);
  for (const Process &p : target.processes)
    for (const Descriptor &d : files.descriptors[p.pid])
      if (std::string why = refused(d, p.pid, files); !why.empty())
        reasons.push_back({p.pid, fmt::format("{}: descriptor {} is {}", name_of(p), d.fd, why)});
}

}  // namespace ckpt::tools
