// SPDX-License-Identifier: Apache-2.0
#include "tools/session/session_folder.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <sstream>

#include "agent/protocol.h"
#include "common/proc/file.h"
#include "tools/proc/process.h"
#include "tools/session/leftover_mounts.h"
#include "tools/session/leftovers.h"

namespace ckpt::tools {

std::string runtime_folder() {
  constexpr const char *kUsual = "/tmp";
  auto is_folder = [](const char *path, int access) {
    std::error_code ec;
    return path && *path && std::filesystem::is_directory(path, ec) && ::access(path, access) == 0;
  };
  const char *chosen = std::getenv("CKPT_RUNTIME_DIR"), *xdg = std::getenv("XDG_RUNTIME_DIR");
  if (is_folder(chosen, F_OK)) return chosen;
  return !is_folder(kUsual, W_OK | X_OK) && is_folder(xdg, W_OK | X_OK) ? xdg : kUsual;
}

std::vector<pid_t> pids_in(const std::string &text) {
  std::vector<pid_t> pids;
  std::istringstream in(text);
  for (pid_t pid; in >> pid && pid > 0;) pids.push_back(pid);
  return pids;
}

std::string session_folder_of(pid_t program, pid_t keeper, const std::string &session_socket) {
  namespace fs = std::filesystem;
  std::string kept = fs::path(session_socket).parent_path();
  std::string named = fs::path(environment_of(program, protocol::kSessionVariable)).parent_path();
  struct stat its {
  }, keepers{};
  bool same = named.starts_with('/') &&
              ::stat(proc::path(program, "root" + named).c_str(), &its) == 0 &&
              ::stat(proc::path(keeper, "root" + kept).c_str(), &keepers) == 0 &&
              its.st_ino == keepers.st_ino && its.st_dev == keepers.st_dev;
  return same ? named : kept;
}

// ckpt-UID-XXXXXX; mkdtemp(3) uses letters and digits.
bool is_session_name(std::string_view name) {
  constexpr std::string_view kPrefix = "ckpt-";
  constexpr size_t kRandom = 6;
  if (!name.starts_with(kPrefix)) return false;
  name.remove_prefix(kPrefix.size());
  size_t dash = name.find('-');
  auto all = [](std::string_view text, auto is) {
    return !text.empty() && std::all_of(text.begin(), text.end(),
                                        [is](unsigned char c) { return c < 0x80 && is(c) != 0; });
  };
  return dash != name.npos && all(name.substr(0, dash), [](int c) { return std::isdigit(c); }) &&
         name.size() == dash + 1 + kRandom &&
         all(name.substr(dash + 1), [](int c) { return std::isalnum(c); });
}

Result<SessionFolder> SessionFolder::create(const std::string &purpose) {
  std::string path = fmt::format("{}/ckpt-{}-{}XXXXXX", runtime_folder(), ::getuid(), purpose);
  if (!::mkdtemp(path.data()))
    return fail_with_hint(fmt::format("cannot create the folder {}: {}", path, strerror(errno)),
                          "name a folder that you may write to with CKPT_RUNTIME_DIR");
  CKPT_TRY(FolderLock lock, lock_folder(path));
  return SessionFolder(path, std::move(lock), ::getpid());
}

SessionFolder::SessionFolder(SessionFolder &&o) noexcept
    : path_(std::exchange(o.path_, {})), lock_(std::move(o.lock_)), owner_(o.owner_) {}

SessionFolder::~SessionFolder() {
  std::error_code ec;
  if (path_.empty() || ::getpid() != owner_) return;
  unmount_cgroup_yards(path_);
  std::filesystem::remove_all(path_, ec);
}

}  // namespace ckpt::tools
