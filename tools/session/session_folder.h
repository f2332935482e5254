// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <string>
#include <vector>

#include "common/base/result.h"
#include "tools/session/leftovers.h"

namespace ckpt::tools {

// $CKPT_RUNTIME_DIR, if that is a folder, or /tmp, where a session outlives the user's login; only
// where /tmp cannot be used, $XDG_RUNTIME_DIR, which is removed when the user logs out.
std::string runtime_folder();

// A new folder of mode 0700 in the runtime folder. The process that has created it removes it with
// its contents; a forked child does not.
class SessionFolder {
 public:
  static Result<SessionFolder> create(const std::string &purpose = "");
  SessionFolder(SessionFolder &&o) noexcept;
  SessionFolder &operator=(SessionFolder &&) = delete;
  ~SessionFolder();

  const std::string &path() const { return path_; }
  std::string file(std::string_view name) const { return fmt::format("{}/{}", path_, name); }

 private:
  SessionFolder(std::string path, FolderLock lock, int owner)
      : path_(std::move(path)), lock_(std::move(lock)), owner_(owner) {}
  std::string path_;
  FolderLock lock_;  // shows that the owner lives
  int owner_;
};

// The session to which a program belongs. A restored program names the folder of its first session,
// which is a link to its keeper's folder or, in its own mount namespace, a bind mount of that
// folder. If $CKPT_SESSION contains any other name, it is not trusted, and the folder of the
// keeper's socket is returned.
std::string session_folder_of(pid_t program, pid_t keeper, const std::string &session_socket);

// True for a name that SessionFolder::create() gives to the folder of a session.
bool is_session_name(std::string_view name);

// The positive numbers at the beginning of a file of a session's folder.
std::vector<pid_t> pids_in(const std::string &text);

// Files in a session's folder. When root runs a tool, their contents are claims of the program's
// user, which the tool checks against the kernel. The PID of the program's root, in the keeper's
// PID namespace:
inline constexpr std::string_view kProgramFile = "program";
// "SECONDS PATH": when the last complete image of the program was written, and its folder.
inline constexpr std::string_view kLastImageFile = "last-image";
// The PIDs of children that the keeper had before it became the keeper. `exec ckpt-run` in a shell
// inherits the shell's children, which are not part of the program.
inline constexpr std::string_view kForeignChildrenFile = "foreign-children";

}  // namespace ckpt::tools
