// SPDX-License-Identifier: Apache-2.0
#include "tools/session/session_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <sstream>

#include "common/base/io.h"
#include "common/base/unique_fd.h"

namespace ckpt::tools {
namespace {

constexpr size_t kMaxBytes = 64u << 10;

UniqueFd open_folder(const std::string &path) {
  return UniqueFd(::open(path.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

}  // namespace

Result<std::string> read_session_file(const std::string &folder, std::string_view name) {
  UniqueFd dir = open_folder(folder);
  UniqueFd file(::openat(dir.get(), std::string(name).c_str(),
                         O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC));
  if (!file) return fail_errno("cannot read {}/{}", folder, name);
  struct stat st {};
  if (::fstat(file.get(), &st) != 0 || !S_ISREG(st.st_mode))
    return fail("{}/{} is not a regular file", folder, name);
  std::string text(kMaxBytes, '\0');
  CKPT_TRY(size_t size, read_at(file.get(), std::as_writable_bytes(std::span(text)), 0));
  text.resize(size);
  return text;
}

void remove_session_file(const Credentials &user, const std::string &folder,
                         std::string_view name) {
  if (AsUser as(user); as.active())
    ::unlinkat(open_folder(folder).get(), std::string(name).c_str(), 0);
}

std::vector<pid_t> pids_in(const std::string &text) {
  std::vector<pid_t> pids;
  std::istringstream in(text);
  for (pid_t pid; in >> pid && pid > 0;) pids.push_back(pid);
  return pids;
}

}  // namespace ckpt::tools
