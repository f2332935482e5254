// SPDX-License-Identifier: Apache-2.0
#include "tools/proc/descriptors.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "common/base/words.h"
#include "common/proc/file.h"
#include "common/proc/mounts.h"
#include "common/proc/status.h"

namespace ckpt::tools {
namespace {

// The fields of proc_pid_fdinfo(5) that are used here. Returns the inode that they belong to;
// before Linux 5.14 it is not there.
std::optional<u64> read_fdinfo(pid_t pid, int fd, Descriptor &d) {
  std::string text = proc::fdinfo(pid, fd);
  std::optional<u64> inode;
  for (std::string_view line : lines_of(text)) {
    std::string_view key = next_word(line);
    if (key == "flags:") d.flags = leading_number(line, 0, 8);
    if (key == "ino:") inode = leading_number(line, u64{0});
    if (key == "mnt_id:") d.mount = leading_number(line, 0);
    if (key == "tty-index:") d.terminal_index = leading_number(line, 0);
    if (key == "eventfd-semaphore:") d.semaphore = leading_number(line, 0) != 0;
  }
  return inode;
}

// Major numbers of terminals (Documentation/admin-guide/devices.txt of Linux): 4 and 5 are consoles
// and /dev/tty, 136 to 143 the slaves of pseudo-terminals.
bool is_terminal(dev_t rdev) {
  unsigned m = major(rdev);
  return m == 4 || m == 5 || (m >= 136 && m <= 143);
}

Descriptor::Kind kind_of(const struct stat &st, const std::string &target) {
  using Kind = Descriptor::Kind;
  if (S_ISREG(st.st_mode)) return target.starts_with('/') ? Kind::File : Kind::Anonymous;
  if (S_ISDIR(st.st_mode)) return Kind::Folder;
  if (S_ISFIFO(st.st_mode)) return target.starts_with("pipe:") ? Kind::Pipe : Kind::Fifo;
  if (S_ISSOCK(st.st_mode)) return Kind::Socket;
  if (S_ISBLK(st.st_mode)) return Kind::BlockDevice;
  if (S_ISCHR(st.st_mode)) return is_terminal(st.st_rdev) ? Kind::Terminal : Kind::CharDevice;
  return Kind::Anonymous;
}

// What a descriptor leads to, or nothing if it is closed.
struct Link {
  std::string target;
  struct stat st {};
  long file_system = 0;
  bool operator==(const Link &other) const {
    return target == other.target && st.st_dev == other.st.st_dev && st.st_ino == other.st.st_ino;
  }
};

std::optional<Link> read_link(const std::string &path) {
  UniqueFd file(::open(path.c_str(), O_PATH | O_CLOEXEC));
  if (!file) return std::nullopt;
  char target[PATH_MAX];
  ssize_t n = ::readlink(proc::fd_path(proc::kSelf, file.get()).c_str(), target, sizeof target);
  Link link;
  struct statfs fs {};
  if (n < 0 || ::fstat(file.get(), &link.st) < 0) return std::nullopt;
  link.target.assign(target, static_cast<size_t>(n));
  if (::fstatfs(file.get(), &fs) == 0) link.file_system = static_cast<long>(fs.f_type);
  return link;
}

// A program that runs may put another file there meanwhile, as a shell does for each redirection.
// What was read is then partly of the one and partly of the other, and is read again.
class Look {
 public:
  Look(pid_t pid, int fd) : pid_(pid), fd_(fd), path_(proc::fd_path(pid, fd)) {}

  // False: it is closed.
  bool read(Descriptor &d) {
    constexpr int kLooks = 100;
    for (int i = 0; i < kLooks; i++) {
      std::optional<Link> link = read_link(path_);
      if (!link) return false;
      d = {};
      std::optional<u64> of_info = fill(*link, d);
      bool was_read = d.mount >= 0;
      if (was_read && read_link(path_) == link && fits(of_info, d.inode)) return true;
    }
    return true;
  }

 private:
  std::optional<u64> fill(const Link &link, Descriptor &d) const {
    const struct stat &st = link.st;
    d.fd = fd_;
    d.target = link.target;
    d.kind = kind_of(st, d.target);
    std::optional<u64> of_info = read_fdinfo(pid_, fd_, d);
    d.file_system = link.file_system;
    d.inode = st.st_ino;
    d.device = st.st_dev;
    d.rdev = st.st_rdev;
    d.size = static_cast<u64>(st.st_size);
    d.deleted = st.st_nlink == 0 || d.target.ends_with(proc::kUnlinked);
    d.mtime_ns = st.st_mtim.tv_sec * 1'000'000'000LL + st.st_mtim.tv_nsec;
    return of_info;
  }

  // Some file systems, such as overlays, show stat(2) another number all the time.
  bool fits(std::optional<u64> of_info, u64 inode) {
    constexpr int kOften = 8;
    if (!of_info || *of_info == inode) return true;
    std::pair now(*of_info, inode);
    times_ = now == last_ ? times_ + 1 : 1;
    last_ = now;
    return times_ == kOften;
  }

  const pid_t pid_;
  const int fd_;
  const std::string path_;
  std::pair<u64, u64> last_;
  int times_ = 0;
};

}  // namespace

bool Descriptor::readable() const { return (flags & O_ACCMODE) != O_WRONLY; }
bool Descriptor::writable() const { return (flags & O_ACCMODE) != O_RDONLY; }

bool Descriptor::made_by_kernel() const {
  constexpr std::array<long, 8> kTypes{PROC_SUPER_MAGIC,    SYSFS_MAGIC,   CGROUP_SUPER_MAGIC,
                                       CGROUP2_SUPER_MAGIC, DEBUGFS_MAGIC, TRACEFS_MAGIC,
                                       SECURITYFS_MAGIC,    NSFS_MAGIC};
  return std::find(kTypes.begin(), kTypes.end(), file_system) != kTypes.end();
}

const char *kind_name(Descriptor::Kind kind) {
  switch (kind) {
    case Descriptor::Kind::File: return "file";
    case Descriptor::Kind::Folder: return "folder";
    case Descriptor::Kind::Pipe: return "pipe";
    case Descriptor::Kind::Fifo: return "fifo";
    case Descriptor::Kind::Terminal: return "tty";
    case Descriptor::Kind::CharDevice:
    case Descriptor::Kind::BlockDevice: return "device";
    case Descriptor::Kind::Socket: return "socket";
    case Descriptor::Kind::Anonymous: return "anonymous";
  }
  return "unknown";
}

int terminal_index_of(u64 rdev) {
  constexpr unsigned kFirst = 136, kLast = 143, kPerMajor = 256;
  unsigned m = major(rdev);
  return m < kFirst || m > kLast ? -1 : static_cast<int>((m - kFirst) * kPerMajor + minor(rdev));
}

std::vector<Descriptor> descriptors_of(pid_t pid) {
  std::vector<Descriptor> v;
  for (int fd : proc::descriptors_of(pid))
    if (Descriptor d; Look(pid, fd).read(d)) v.push_back(std::move(d));
  return v;
}

std::set<int> mounts_of(pid_t pid) {
  std::set<int> all;
  for (const proc::Mount &m : proc::mounts_of(pid)) all.insert(m.id);
  return all;
}

std::set<int> all_mounts_of(pid_t pid) {
  std::set<int> all = mounts_of(pid);
  struct statx root {};
  std::string path = proc::path(pid, "root");
  bool known = ::statx(AT_FDCWD, path.c_str(), 0, STATX_MNT_ID, &root) == 0 &&
               (root.stx_mask & STATX_MNT_ID) && all.contains(static_cast<int>(root.stx_mnt_id));
  return known ? all : std::set<int>();
}

}  // namespace ckpt::tools
