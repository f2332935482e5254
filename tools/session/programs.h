// SPDX-License-Identifier: Apache-2.0
//
// All programs of this machine that run under ckpt-run or ckpt-restore, as far as this user may see
// them. Data from a program's user (names, files of the session) is untrusted text.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::tools {

struct RunningProgram {
  pid_t keeper = 0;
  pid_t root = 0;  // 0: it is still being started or restored
  uid_t uid = 0;
  std::string user;
  std::string state;   // "running", "stopped", "suspended", "dumping", "starting"
  std::string depth;   // of a suspended program: "full", "memory"
  double seconds = 0;  // since the keeper was started
  size_t processes = 0;
  u64 resident_bytes = 0;
  std::vector<std::string> devices;  // their names, or the API's where they are not known now
  std::string last_image;            // "": none
  i64 last_image_time = 0;           // seconds since 1970
  std::string command;
  // CKPT_SESSION's folder in the environment of the program, which images call session_dir.
  std::string session_folder;
  pid_t root_ns_pid = 0;
};

// Those of one user, or of all. In the order of the keepers' PIDs.
std::vector<RunningProgram> running_programs(std::optional<uid_t> of_user);

// The name of a user, or the number if there is no name.
std::string user_name(uid_t uid);
// For --user: the user of this name or number. Without a name: the user of this tool, or none,
// which means all, if that is root.
Result<std::optional<uid_t>> selected_user(const std::string &name);

}  // namespace ckpt::tools
