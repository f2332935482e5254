// SPDX-License-Identifier: Apache-2.0
#include "tools/start/namespaces.h"

#include <sched.h>
#include <sys/mount.h>
#include <sys/statvfs.h>
#include <unistd.h>

namespace ckpt::tools {
namespace {

constexpr const char *kSharedMemory = "/dev/shm";

// The kernel's limit of a name (__NEW_UTS_LEN) is sethostname(2)'s to refuse.
Result<> set_host_name(const std::string &name) {
  if (name.empty() || ::sethostname(name.data(), name.size()) == 0) return {};
  return fail_errno("cannot give the copy the host name {}", name);
}

// tmpfs(5): a size of 0 would be none.
std::string size_of(const char *folder) {
  struct statvfs fs {};
  if (::statvfs(folder, &fs) != 0 || fs.f_blocks == 0) return "mode=1777";
  return fmt::format("mode=1777,size={}", u64{fs.f_blocks} * fs.f_frsize);
}

}  // namespace

Result<> enter_copy_namespaces(const std::string &host_name) {
  int kinds = CLONE_NEWNS | CLONE_NEWIPC | (host_name.empty() ? 0 : CLONE_NEWUTS);
  if (::unshare(kinds) < 0)
    return fail_with_hint(fmt::format("cannot make the namespaces of a copy: {}", strerror(errno)),
                          "run ckpt-start as root, with CAP_SYS_ADMIN");
  // Mounts of the outside appear inside, but not the other way round.
  if (::mount("none", "/", nullptr, MS_REC | MS_SLAVE, nullptr) < 0)
    return fail_errno("cannot separate the mounts of a copy");
  if (::mount("tmpfs", kSharedMemory, "tmpfs", MS_NOSUID | MS_NODEV,
              size_of(kSharedMemory).c_str()) < 0)
    return fail_errno("cannot mount a {} for a copy", kSharedMemory);
  return set_host_name(host_name);
}

}  // namespace ckpt::tools
