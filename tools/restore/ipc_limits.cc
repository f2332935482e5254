// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/ipc_limits.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <set>
#include <string_view>

#include "common/base/unique_fd.h"
#include "common/proc/file.h"

namespace ckpt::tools {
namespace {

namespace fs = std::filesystem;

constexpr std::array<const char *, 2> kCovered{"sys/kernel", "sys/fs"};
// CRIU leaves the limits of POSIX message queues out if there is no such folder.
constexpr std::string_view kQueues = "mqueue";

// Those that ipc_sysctl_req() of criu/ipc_ns.c writes. The numbers of the next objects, which it
// writes too, are permitted.
bool is_limit(std::string_view name) {
  static const std::set<std::string_view> kLimits{"sem",         "msgmax", "msgmnb",
                                                  "auto_msgmni", "msgmni", "shmmax",
                                                  "shmall",      "shmmni", "shm_rmid_forced"};
  return kLimits.contains(name);
}

Result<> add_entry(const std::string &path, const fs::path &real, std::string_view name) {
  if (!is_limit(name))
    return ::symlink(real.c_str(), path.c_str()) == 0 ? Result<>{}
                                                      : fail_errno("cannot create {}", path);
  UniqueFd file(::open(path.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  return file ? Result<>{} : fail_errno("cannot create {}", path);
}

Result<> cover_folder(const std::string &folder, const std::string &behind) {
  if (::mount("tmpfs", folder.c_str(), "tmpfs", MS_NOSUID | MS_NODEV | MS_NOEXEC, "mode=0755") < 0)
    return fail_errno("cannot cover {}", folder);
  std::error_code ec;
  for (const fs::directory_entry &entry : fs::directory_iterator(behind, ec)) {
    std::string name = entry.path().filename();
    if (name != kQueues)
      CKPT_CHECK(add_entry(fmt::format("{}/{}", folder, name), entry.path(), name));
  }
  return ec ? fail("cannot list {}: {}", behind, ec.message()) : Result<>{};
}

}  // namespace

Result<> IpcLimits::cover(const std::string &folder) {
  std::string behind = folder + "/proc", proc = proc::path_of_machine("");
  if (::mkdir(behind.c_str(), 0700) < 0 ||
      ::mount(proc.c_str(), behind.c_str(), nullptr, MS_BIND | MS_REC, nullptr) < 0)
    return fail_errno("cannot mount {} a second time", proc);
  behind_ = std::move(behind);
  for (const char *name : kCovered)
    CKPT_CHECK(cover_folder(proc::path_of_machine(name), fmt::format("{}/{}", behind_, name)));
  return {};
}

IpcLimits::~IpcLimits() {
  if (behind_.empty()) return;
  for (const char *name : kCovered) ::umount2(proc::path_of_machine(name).c_str(), MNT_DETACH);
  ::umount2(behind_.c_str(), MNT_DETACH);
  ::rmdir(behind_.c_str());
}

}  // namespace ckpt::tools
