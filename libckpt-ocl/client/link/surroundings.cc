// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/link/surroundings.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "common/base/io.h"

namespace ckpt::ocl {
namespace {

struct FirstEnvironment {
  std::string session;
  std::string entries;  // each ends with 0
};

// Never destroyed: the application may call OpenCL after its static destructors have run.
const FirstEnvironment &remembered(const std::string &session) {
  static const FirstEnvironment *const kFirst = [&] {
    auto *first = new FirstEnvironment{session, {}};
    for (char **e = environ; e && *e; e++) first->entries.append(*e).push_back('\0');
    return first;
  }();
  return *kFirst;
}

}  // namespace

Result<UniqueFd> working_folder() {
  UniqueFd folder(::open(".", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder) folder.reset(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!folder) return fail_errno("cannot open the working folder");
  return folder;
}

Result<UniqueFd> first_environment(const std::string &session) {
  const FirstEnvironment &first = remembered(session);
  if (first.session != session) return UniqueFd();
  UniqueFd file(::memfd_create("ckpt-environment", MFD_CLOEXEC));
  if (!file) return fail_errno("cannot create a file for the environment");
  CKPT_CHECK(write_all(file.get(), view(first.entries)));
  return file;
}

Result<UniqueFd> ProxyFolder::to_follow() {
  struct stat now {};
  if (::stat(".", &now) < 0 || (now.st_dev == device_ && now.st_ino == inode_)) return UniqueFd();
  CKPT_TRY(UniqueFd folder, working_folder());
  device_ = now.st_dev;
  inode_ = now.st_ino;
  return folder;
}

}  // namespace ckpt::ocl
