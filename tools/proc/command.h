// SPDX-License-Identifier: Apache-2.0
//
// Child processes of the tools.
#pragma once

#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "common/base/result.h"

namespace ckpt::tools {

struct CommandResult {
  int exit_code = 0;  // 128 + N when signal N ended it
  std::string output;
};

// Runs a short helper with `input` on its standard input; its standard error is ours.
Result<CommandResult> run_command(const std::vector<std::string> &argv, const std::string &input);

struct Spawn {
  std::vector<std::string> argv;
  std::vector<std::pair<std::string, std::string>> environment;  // added to ours
  std::vector<std::string> without;                              // taken away from ours
  int in = -1, out = -1, err = -1;  // what becomes 0, 1 and 2; -1: ours
  std::vector<int> keep;   // close-on-exec descriptors that the child keeps, number and all
  std::string folder;      // "": ours
  bool own_group = false;  // out of the reach of the terminal's Ctrl-C
  bool die_with_us = false;
  bool search_path = true;
  int new_namespaces = 0;             // CLONE_NEW…
  const void *signal_mask = nullptr;  // a sigset_t; null: nothing blocked
  std::function<void()> in_child;     // async-signal-safe, right before exec
};

// Returns once the program is executed; when it cannot be, errno is in the Error and in *error.
Result<pid_t> spawn(const Spawn &spec, int *error = nullptr);

}  // namespace ckpt::tools
