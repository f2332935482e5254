// SPDX-License-Identifier: Apache-2.0
#include "helper/namespace.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/file_text.h"
#include "common/base/log.h"
#include "common/base/unique_fd.h"
#include "common/proc/file.h"

namespace ckpt::helper {
namespace {

// devpts has its multiplexer inside; programs open it as /dev/ptmx.
Result<> mount_terminals() {
  if (::mount("devpts", "/dev/pts", "devpts", MS_NOSUID | MS_NOEXEC,
              "newinstance,ptmxmode=0666,mode=0620") < 0 ||
      ::mount("/dev/pts/ptmx", "/dev/ptmx", nullptr, MS_BIND, nullptr) < 0)
    return fail_errno("cannot mount pseudo-terminals in the new namespace");
  return {};
}

// What follows is mounted by its descriptor, so that no link can be put in between.
std::string by_descriptor(const UniqueFd &fd) { return proc::fd_path(proc::kSelf, fd.get()); }

UniqueFd open_folder(const std::string &path, uid_t owner) {
  UniqueFd fd(::open(path.c_str(), O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
  struct stat st {};
  bool theirs = fd && ::fstat(fd.get(), &st) == 0 && st.st_uid == owner;
  return theirs ? std::move(fd) : UniqueFd();
}

// A folder of the program's user over another one: this user could have changed its contents too.
void mount_folder(const NewNamespace &n) {
  UniqueFd from = open_folder(n.seen_from, n.owner), as = open_folder(n.seen_as, n.owner);
  if (!from || !as ||
      ::mount(by_descriptor(from).c_str(), by_descriptor(as).c_str(), nullptr, MS_BIND, nullptr) <
          0)
    log::debug("cannot mount {} as {}", n.seen_from, n.seen_as);
}

}  // namespace

Result<> set_up_namespace(const NewNamespace &n) {
  if (::mount("none", "/", nullptr, MS_REC | MS_SLAVE, nullptr) < 0)
    return fail_errno("cannot separate the mounts of the new namespace");
  if (::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) < 0)
    return fail_errno("cannot mount /proc in the new namespace");
  if (n.own_terminals) CKPT_CHECK(mount_terminals());
  if (!n.seen_as.empty()) mount_folder(n);
  return write_file_text(proc::path_of_machine("sys/kernel/ns_last_pid"),
                         std::to_string(n.last_pid));
}

}  // namespace ckpt::helper
