// SPDX-License-Identifier: Apache-2.0
//
// The files of /proc, and the one place that names them. What cannot be read is an empty text, or
// an error where the caller must know: a process may end between open(2) and read(2) (ESRCH), and
// what it has left behind is nothing.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt::proc {

// This process, also where /proc shows other PIDs than ours.
inline constexpr pid_t kSelf = 0;

// "/proc/12/status", "/proc/self/maps", "/proc/12/task/13/syscall"
std::string path(pid_t pid, std::string_view name);
std::string path(pid_t pid, pid_t thread, std::string_view name);
std::string fd_path(pid_t pid, int fd);
std::string map_path(pid_t pid, u64 begin, u64 end);

// The whole text of such a file; "" if it cannot be read.
std::string text(pid_t pid, std::string_view name);
std::string text(pid_t pid, pid_t thread, std::string_view name);
std::string fdinfo(pid_t pid, int fd);
Result<std::string> read(pid_t pid, std::string_view name);
// Without the process: "locks", "sys/kernel/random/boot_id".
std::string path_of_machine(std::string_view name);
std::string text_of_machine(std::string_view name);

Result<UniqueFd> open(pid_t pid, std::string_view name, int flags);
// The target of a link ("exe", "cwd"); "" if it cannot be read.
std::string link(pid_t pid, std::string_view name);
// The parts of a text that are separated by zero bytes ("cmdline", "environ").
std::vector<std::string> parts(pid_t pid, std::string_view name);

}  // namespace ckpt::proc
