// SPDX-License-Identifier: Apache-2.0
#include "tools/proc/sockets.h"

#include <algorithm>
#include <map>

#include "common/base/words.h"
#include "common/proc/file.h"
#include "tools/proc/descriptors.h"

namespace ckpt::tools {
namespace {

constexpr unsigned kListening = 0x10000;  // __SO_ACCEPTCON, in the column "Flags" of /proc/net/unix

// The sockets of a network namespace by their inodes, each with its path if it listens.
using UnixSockets = std::map<u64, std::string>;

void add_sockets(pid_t pid, UnixSockets &found) {
  // "0000000000000000: 00000002 00000000 00010000 0001 01 12345 /run/name", below a heading.
  enum { kFlags = 3, kInode = 6, kPath = 7 };
  std::string table = proc::text(pid, "net/unix");
  for (std::string_view line : lines_of(table)) {
    std::vector<std::string_view> fields = words_of(line);
    unsigned flags = 0;
    u64 inode = 0;
    if (fields.size() <= kInode || !parse_number(fields[kFlags], flags, 16) ||
        !parse_number(fields[kInode], inode))
      continue;
    bool listens = (flags & kListening) && fields.size() > kPath && fields[kPath].starts_with('/');
    found[inode] = listens ? fields[kPath] : "";
  }
}

std::vector<u64> sockets_of(pid_t pid) {
  std::vector<u64> inodes;
  for (const Descriptor &d : descriptors_of(pid))
    if (d.kind == Descriptor::Kind::Socket) inodes.push_back(d.inode);
  return inodes;
}

}  // namespace

// The kernel prints the list page by page. When a socket closes between two pages, the list may
// miss another one (seen in 7 of 27,000 readings), so what is missing is looked up again.
std::vector<std::string> listening_sockets(pid_t pid, const std::string &prefix) {
  std::vector<u64> inodes = sockets_of(pid);
  if (inodes.empty()) return {};
  UnixSockets known;
  add_sockets(pid, known);
  if (std::ranges::any_of(inodes, [&](u64 inode) { return !known.contains(inode); }))
    add_sockets(pid, known);
  std::vector<std::string> paths;
  for (u64 inode : inodes) {
    const std::string &path = known[inode];
    if (!path.empty() && path.substr(path.rfind('/') + 1).starts_with(prefix))
      paths.push_back(path);
  }
  return paths;
}

}  // namespace ckpt::tools
