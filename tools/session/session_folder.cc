// SPDX-License-Identifier: Apache-2.0
#include "tools/session/session_folder.h"

#include <stdlib.h>
#include <unistd.h>

#include <filesystem>

#include "tools/session/leftovers.h"

namespace ckpt::tools {

std::string runtime_folder() {
  for (const char *name : {"CKPT_RUNTIME_DIR", "XDG_RUNTIME_DIR"})
    if (const char *value = std::getenv(name); value && *value) {
      std::error_code ec;
      if (std::filesystem::is_directory(value, ec)) return value;
    }
  return "/tmp";
}

Result<SessionFolder> SessionFolder::create(const std::string &purpose) {
  std::string path = fmt::format("{}/ckpt-{}-{}XXXXXX", runtime_folder(), ::getuid(), purpose);
  if (!::mkdtemp(path.data())) return fail_errno("cannot create the folder {}", path);
  CKPT_TRY(UniqueFd lock, lock_folder(path));
  return SessionFolder(path, std::move(lock), ::getpid());
}

SessionFolder::SessionFolder(SessionFolder &&o) noexcept
    : path_(std::exchange(o.path_, {})), lock_(std::move(o.lock_)), owner_(o.owner_) {}

SessionFolder::~SessionFolder() {
  std::error_code ec;
  if (!path_.empty() && ::getpid() == owner_) std::filesystem::remove_all(path_, ec);
}

}  // namespace ckpt::tools
