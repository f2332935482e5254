// SPDX-License-Identifier: Apache-2.0
#include "tools/idled/off_switch.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>

#include "common/base/unique_fd.h"
#include "tools/session/programs.h"

namespace ckpt::tools {
namespace {

namespace fs = std::filesystem;

// Any user may fill the folder.
constexpr int kMostFiles = 1000;

}  // namespace

Result<> OffSwitch::create() const {
  std::error_code ec;
  fs::create_directories(folder_, ec);
  if (ec || ::chmod(folder_.c_str(), 01777) < 0)
    return fail_with_hint(
        fmt::format("cannot make {}: {}", folder_, ec ? ec.message() : std::strerror(errno)),
        "run ckpt-idled as root or by its systemd unit, or name another --folder");
  return {};
}

Result<> OffSwitch::off() const {
  std::string path = fmt::format("{}/{}", folder_, ::geteuid());
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0644));
  struct stat st {};
  if (!file || ::fstat(file.get(), &st) < 0 || st.st_uid != ::geteuid())
    return fail_with_hint(fmt::format("cannot make {}: {}", path,
                                      file ? "it belongs to another user" : std::strerror(errno)),
                          "ckpt-idled makes the folder when it is started first");
  return {};
}

Result<std::vector<std::string>> OffSwitch::on() const {
  std::string own = std::to_string(::geteuid());
  std::error_code ec;
  for (const fs::directory_entry &e : fs::directory_iterator(folder_, ec))
    if (::geteuid() == 0 || e.path().filename() == own)
      if (::unlink(e.path().c_str()) < 0 && errno != ENOENT)
        return fail_errno("cannot remove {}", e.path().string());
  return users();
}

std::vector<std::string> OffSwitch::users() const {
  std::vector<std::string> found;
  std::error_code ec;
  int seen = 0;
  for (const fs::directory_entry &e : fs::directory_iterator(folder_, ec)) {
    std::string path = e.path();
    struct stat st {};
    if (++seen > kMostFiles) return {fmt::format("more than {} files in {}", kMostFiles, folder_)};
    if (::lstat(path.c_str(), &st) < 0) continue;
    if (S_ISREG(st.st_mode) && e.path().filename() == std::to_string(st.st_uid))
      found.push_back(user_name(st.st_uid));
    else if (::remove(path.c_str()) < 0)
      found.push_back(fmt::format("{}, which belongs to {}", path, user_name(st.st_uid)));
  }
  return found;
}

}  // namespace ckpt::tools
