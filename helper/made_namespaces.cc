// SPDX-License-Identifier: Apache-2.0
#include "helper/made_namespaces.h"

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <sstream>

#include "common/base/file_text.h"
#include "common/base/io.h"
#include "common/base/unique_fd.h"
#include "common/proc/stat.h"
#include "common/proc/status.h"

namespace ckpt::helper {
namespace {

constexpr std::string_view kMarkPrefix = "namespace-";

std::string file_of(const std::string &folder, u64 pids, u64 mounts) {
  return pids && mounts ? fmt::format("{}/{}{}-{}", folder, kMarkPrefix, pids, mounts) : "";
}

// The numbers of namespaces are used again. Their first process, while it lives with the same start
// time, keeps both: the kernel ends a PID namespace with it.
struct First {
  pid_t pid = 0;
  u64 started = 0;

  static std::optional<First> of(pid_t pid) {
    Result<u64> started = proc::start_ticks_of(pid);
    return started ? std::optional(First{pid, *started}) : std::nullopt;
  }
  static std::optional<First> in(const std::string &file) {
    First first;
    std::istringstream in(file_text(file).value_or(""));
    return in >> first.pid >> first.started ? std::optional(first) : std::nullopt;
  }
  std::string text() const { return fmt::format("{} {}\n", pid, started); }
  bool operator==(const First &) const = default;
};

bool is_alive(const std::string &folder, const std::string &file) {
  std::optional<First> first = First::in(file);
  return first && First::of(first->pid) == first &&
         file == file_of(folder, proc::namespace_inode(first->pid, "pid"),
                         proc::namespace_inode(first->pid, "mnt"));
}

}  // namespace

Result<MadeNamespace> MadeNamespace::remember(const std::string &folder, pid_t first) {
  MadeNamespace made;
  std::optional<First> process = First::of(first);
  std::string file =
      file_of(folder, proc::namespace_inode(first, "pid"), proc::namespace_inode(first, "mnt"));
  if (file.empty() || !process) return fail("the stem has ended");
  // One that is complete gets the name at once: another process may remove incomplete ones.
  std::string unnamed = fmt::format("{}/new-mark-{}", folder, ::getpid());
  UniqueFd fd(::open(unnamed.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600));
  if (!fd || !write_all(fd.get(), view(process->text())) ||
      ::rename(unnamed.c_str(), file.c_str()) != 0)
    return fail_errno("cannot create {}", file);
  made.file_ = file;
  return made;
}

MadeNamespace::~MadeNamespace() {
  if (!file_.empty()) ::unlink(file_.c_str());
}

bool is_made_namespace(const std::string &folder, u64 pids, u64 mounts) {
  std::string file = file_of(folder, pids, mounts);
  return !file.empty() && is_alive(folder, file);
}

void remove_dead_mark(const std::string &folder, const std::string &name) {
  std::string file = fmt::format("{}/{}", folder, name);
  if (name.starts_with(kMarkPrefix) && !is_alive(folder, file)) ::unlink(file.c_str());
}

}  // namespace ckpt::helper
