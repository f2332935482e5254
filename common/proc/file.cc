// SPDX-License-Identifier: Apache-2.0
#include "common/proc/file.h"

#include <fcntl.h>
#include <unistd.h>

#include <climits>

#include "common/base/file_text.h"

namespace ckpt::proc {

std::string path(pid_t pid, std::string_view name) {
  return pid == kSelf ? fmt::format("/proc/self/{}", name) : fmt::format("/proc/{}/{}", pid, name);
}

std::string path(pid_t pid, pid_t thread, std::string_view name) {
  return path(pid, fmt::format("task/{}/{}", thread, name));
}

std::string fd_path(pid_t pid, int fd) { return path(pid, fmt::format("fd/{}", fd)); }

std::string map_path(pid_t pid, u64 begin, u64 end) {
  return path(pid, fmt::format("map_files/{:x}-{:x}", begin, end));
}

std::string text(pid_t pid, std::string_view name) { return read(pid, name).value_or(""); }

std::string text(pid_t pid, pid_t thread, std::string_view name) {
  return file_text(path(pid, thread, name)).value_or("");
}

std::string fdinfo(pid_t pid, int fd) { return text(pid, fmt::format("fdinfo/{}", fd)); }

Result<std::string> read(pid_t pid, std::string_view name) { return file_text(path(pid, name)); }

std::string path_of_machine(std::string_view name) { return fmt::format("/proc/{}", name); }

std::string text_of_machine(std::string_view name) {
  return file_text(path_of_machine(name)).value_or("");
}

Result<UniqueFd> open(pid_t pid, std::string_view name, int flags) {
  std::string file = path(pid, name);
  UniqueFd fd(::open(file.c_str(), flags | O_CLOEXEC));
  return fd ? Result<UniqueFd>(std::move(fd)) : fail_errno("cannot open {}", file);
}

std::string link(pid_t pid, std::string_view name) {
  char target[PATH_MAX];
  ssize_t n = ::readlink(path(pid, name).c_str(), target, sizeof target);
  return n < 0 ? std::string() : std::string(target, static_cast<size_t>(n));
}

std::vector<std::string> parts(pid_t pid, std::string_view name) {
  std::vector<std::string> all;
  std::string whole = text(pid, name);
  for (size_t at = 0; at < whole.size();) {
    size_t end = std::min(whole.find('\0', at), whole.size());
    all.push_back(whole.substr(at, end - at));
    at = end + 1;
  }
  return all;
}

}  // namespace ckpt::proc
