// SPDX-License-Identifier: Apache-2.0
#include "tools/proc/process_root.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <filesystem>

#include "common/ipc/unix_socket.h"
#include "common/proc/file.h"
#include "tools/proc/process.h"

namespace ckpt::tools {
namespace {

namespace fs = std::filesystem;

constexpr size_t kMaxFileBytes = 64u << 10;

std::string root_link(pid_t pid) { return proc::path(pid, "root"); }

struct SocketName {
  std::string path;
  UniqueFd folder;
};

// By the folder's descriptor, because its name is short: a socket's path has 107 bytes at most.
Result<SocketName> name_here(pid_t pid, const std::string &socket) {
  if (shares_files(pid)) return SocketName{socket, {}};
  fs::path path(socket);
  CKPT_TRY(UniqueFd folder, open_folder_of(pid, path.parent_path().string()));
  std::string here =
      fmt::format("{}/{}", proc::fd_path(proc::kSelf, folder.get()), path.filename().string());
  return SocketName{std::move(here), std::move(folder)};
}

// The name alone proves nothing: its folder may belong to another user, who can put another
// process's socket there (SO_PEERCRED, unix(7)).
Result<> check_listener(int connection, pid_t pid, const std::string &socket) {
  CKPT_TRY(ucred peer, peer_credentials(connection));
  if (peer.pid == pid) return {};
  return fail("process {} listens on {}, instead of process {}", peer.pid, socket, pid);
}

}  // namespace

bool have_same_root(pid_t one, pid_t other) {
  struct stat a {
  }, b{};
  if (::stat(root_link(one).c_str(), &a) != 0 || ::stat(root_link(other).c_str(), &b) != 0)
    return true;
  return a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

bool shares_root(pid_t pid) { return have_same_root(pid, ::getpid()); }

bool shares_files(pid_t pid) {
  return namespace_of(pid, "mnt") == namespace_of(::getpid(), "mnt") && shares_root(pid);
}

std::string prefix_of_files(pid_t pid) { return shares_files(pid) ? "" : root_link(pid); }

Result<UniqueFd> open_folder_of(pid_t pid, const std::string &path) {
  constexpr u64 kFlags = O_PATH | O_DIRECTORY | O_CLOEXEC;
  if (shares_files(pid)) {
    UniqueFd folder(::open(path.c_str(), static_cast<int>(kFlags)));
    return folder ? Result<UniqueFd>(std::move(folder)) : fail_errno("cannot open {}", path);
  }
  UniqueFd root(::open(root_link(pid).c_str(), static_cast<int>(kFlags)));
  if (!root) return fail_errno("cannot open the root folder of process {}", pid);
  open_how how{.flags = kFlags, .mode = 0, .resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS};
  UniqueFd folder(
      static_cast<int>(::syscall(SYS_openat2, root.get(), path.c_str(), &how, sizeof how)));
  if (!folder) return fail_errno("cannot open {}, as process {} sees it", path, pid);
  return folder;
}

Result<UniqueFd> connect_unix_of(pid_t pid, const std::string &socket) {
  CKPT_TRY(SocketName name, name_here(pid, socket));
  CKPT_TRY(UniqueFd fd, connect_unix(name.path));
  CKPT_CHECK(check_listener(fd.get(), pid, socket));
  return fd;
}

Result<std::optional<UniqueFd>> connect_unix_at_once_of(pid_t pid, const std::string &socket) {
  CKPT_TRY(SocketName name, name_here(pid, socket));
  CKPT_TRY(std::optional<UniqueFd> fd, connect_unix_at_once(name.path));
  if (fd) CKPT_CHECK(check_listener(fd->get(), pid, socket));
  return fd;
}

std::string read_file_of(pid_t pid, const std::string &path) {
  fs::path name(path);
  Result<UniqueFd> folder = open_folder_of(pid, name.parent_path().string());
  if (!folder) return {};
  UniqueFd file(::openat(folder->get(), name.filename().c_str(),
                         O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat st {};
  if (!file || ::fstat(file.get(), &st) != 0 || !S_ISREG(st.st_mode)) return {};
  std::string text(kMaxFileBytes, '\0');
  ssize_t n = ::read(file.get(), text.data(), text.size());
  text.resize(n > 0 ? static_cast<size_t>(n) : 0);
  return text;
}

}  // namespace ckpt::tools
