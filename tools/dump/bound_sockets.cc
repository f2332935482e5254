// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/bound_sockets.h"

#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <climits>
#include <cstddef>
#include <set>

#include "common/proc/file.h"
#include "tools/proc/descriptors.h"
#include "tools/proc/process_root.h"

namespace ckpt::tools {
namespace {

// As in linux/un.h, which has a sockaddr_un of its own.
constexpr unsigned long kFileOfSocket = SIOCPROTOPRIVATE;  // SIOCUNIXFILE
constexpr size_t kMostPathBytes = sizeof sockaddr_un::sun_path;

// The path of bind(2); "" for abstract and unnamed sockets, and those of other families.
std::string bound_path(int socket) {
  sockaddr_un a{};
  socklen_t size = sizeof a;
  if (::getsockname(socket, reinterpret_cast<sockaddr *>(&a), &size) < 0 ||
      a.sun_family != AF_UNIX || size <= offsetof(sockaddr_un, sun_path))
    return {};
  return std::string(a.sun_path, ::strnlen(a.sun_path, sizeof a.sun_path));
}

// The present path of its file, which the kernel tells processes that may administer the network.
std::string present_path(int socket) {
  UniqueFd file(::ioctl(socket, kFileOfSocket));
  if (!file) return {};
  char path[PATH_MAX];
  ssize_t n = ::readlink(proc::fd_path(proc::kSelf, file.get()).c_str(), path, sizeof path);
  struct stat st {};
  bool has_name = n > 0 && ::fstat(file.get(), &st) == 0 && st.st_nlink > 0;
  return has_name ? std::string(path, static_cast<size_t>(n)) : "";
}

bool is_same(const std::string &bound, const std::string &path) {
  return bound.starts_with('/') ? bound == path : path.ends_with("/" + bound);
}

// Another name may lead to the file as well: a link, or "/tmp/../tmp/a".
bool leads_to(const std::string &bound, const std::string &path) {
  struct stat a {
  }, b{};
  return bound.starts_with('/') && ::stat(bound.c_str(), &a) == 0 &&
         ::stat(path.c_str(), &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

}  // namespace

BoundSockets BoundSockets::of(const Target &target) {
  BoundSockets all;
  std::set<u64> seen;
  for (const Process &p : target.processes)
    for (const Descriptor &d : descriptors_of(p.pid)) {
      if (d.kind != Descriptor::Kind::Socket || !seen.insert(d.inode).second ||
          !have_same_root(p.pid, target.viewer))
        continue;
      UniqueFd socket = duplicate_descriptor(p.pid, d.fd);
      std::string bound = socket ? bound_path(socket.get()) : "";
      std::string path = bound.empty() ? "" : present_path(socket.get());
      if (path.empty() || is_same(bound, path) ||
          leads_to(target.files + bound, target.files + path))
        continue;
      all.renamed_.push_back({p.pid, d.fd, d.inode, bound, path, name_of(p)});
    }
  return all;
}

void BoundSockets::check(Closables &reasons) const {
  for (const Socket &s : renamed_) {
    bool fits = s.path.size() < kMostPathBytes;
    if (s.bound.starts_with('/') && fits) continue;
    reasons.push_back(
        {s.pid, fmt::format("{}: descriptor {} is a UNIX socket that was bound to {} and is named "
                            "{} now, which CRIU cannot restore: bind it to {}",
                            s.process, s.fd, s.bound, s.path,
                            fits ? "an absolute path" : "a shorter path")});
  }
}

std::vector<manifest::RenamedSocket> BoundSockets::describe_renamed() const {
  std::vector<manifest::RenamedSocket> list;
  for (const Socket &s : renamed_) list.push_back({s.inode, s.path});
  return list;
}

}  // namespace ckpt::tools
