// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "common/base/result.h"

namespace ckpt::tools {

// $CKPT_RUNTIME_DIR, else $XDG_RUNTIME_DIR, else /tmp.
std::string runtime_folder();

// A new folder of mode 0700 in the runtime folder; removed, with all in it, by the process that
// made it (a forked child does not).
class SessionFolder {
 public:
  static Result<SessionFolder> create(const std::string &purpose = "");
  SessionFolder(SessionFolder &&o) noexcept;
  SessionFolder &operator=(SessionFolder &&) = delete;
  ~SessionFolder();

  const std::string &path() const { return path_; }
  std::string file(std::string_view name) const { return fmt::format("{}/{}", path_, name); }

 private:
  SessionFolder(std::string path, int owner) : path_(std::move(path)), owner_(owner) {}
  std::string path_;
  int owner_;
};

// In a session's folder: the PID of the program's root, as the keeper sees it.
inline constexpr std::string_view kProgramFile = "program";
// The keeper's children from before it was the keeper: `exec ckpt-run` in a shell takes the shell's
// over, and they are no part of the program.
inline constexpr std::string_view kStrangersFile = "strangers";

}  // namespace ckpt::tools
