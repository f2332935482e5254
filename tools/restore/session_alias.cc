// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/session_alias.h"

#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "agent/protocol.h"
#include "common/base/log.h"
#include "common/ipc/unix_socket.h"

namespace ckpt::tools {
namespace {

namespace fs = std::filesystem;

// True for the folder of a keeper that was killed: it is ours, has the name of a session's folder,
// and no process listens in it.
bool is_dead_session(const std::string &folder) {
  struct stat st {};
  if (::lstat(folder.c_str(), &st) < 0 || st.st_uid != ::geteuid()) return false;
  if (!fs::path(folder).filename().string().starts_with("ckpt-")) return false;
  return !connect_unix(folder + "/" + std::string(protocol::kSessionSocket));
}

}  // namespace

SessionAlias::SessionAlias(std::string old_folder, std::string new_folder)
    : old_(std::move(old_folder)), new_(std::move(new_folder)) {
  if (old_.empty() || old_ == new_) return;
  std::error_code ec;
  if (is_dead_session(old_)) fs::remove_all(old_, ec);
  fs::create_directory_symlink(new_, old_, ec);
  linked_ = !ec;
  if (ec) log::debug("cannot create the link {} to {}: {}", old_, new_, ec.message());
}

SessionAlias::~SessionAlias() {
  std::error_code ec;
  if (linked_ && fs::read_symlink(old_, ec) == new_) fs::remove(old_, ec);
}

}  // namespace ckpt::tools
