// SPDX-License-Identifier: Apache-2.0
#include "helper/made_namespaces.h"

#include <fcntl.h>
#include <unistd.h>

#include "common/base/unique_fd.h"
#include "helper/status.h"

namespace ckpt::helper {
namespace {

std::string file_of(const std::string &folder, u64 pids, u64 mounts) {
  return pids && mounts ? fmt::format("{}/namespace-{}-{}", folder, pids, mounts) : "";
}

}  // namespace

Result<MadeNamespace> MadeNamespace::remember(const std::string &folder, pid_t first) {
  MadeNamespace made;
  std::string file = file_of(folder, namespace_inode(first, "pid"), namespace_inode(first, "mnt"));
  if (file.empty()) return fail("the stem has ended");
  if (UniqueFd fd(::open(file.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600)); !fd)
    return fail_errno("cannot create {}", file);
  made.file_ = file;
  return made;
}

MadeNamespace::~MadeNamespace() {
  if (!file_.empty()) ::unlink(file_.c_str());
}

bool is_made_namespace(const std::string &folder, u64 pids, u64 mounts) {
  std::string file = file_of(folder, pids, mounts);
  return !file.empty() && ::access(file.c_str(), F_OK) == 0;
}

}  // namespace ckpt::helper
