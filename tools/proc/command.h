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
  int exit_code = 0;  // 128 + N after death by signal N
  std::string output;
  bool is_cut = false;  // it printed more, which was not read
};

// Runs a short-lived program with `input` as its standard input, and returns its standard output.
// Its standard error is ours.
Result<CommandResult> run_command(const std::vector<std::string> &argv, const std::string &input);

struct Spawn {
  std::vector<std::string> argv;
  std::vector<std::pair<std::string, std::string>> environment;  // added to ours
  std::vector<std::string> without;                              // removed from ours
  int in = -1, out = -1, err = -1;                               // the standard streams; -1: ours
  std::vector<int> keep;   // descriptors that the child keeps, although close-on-exec
  std::string folder;      // the working directory; "": ours
  bool own_group = false;  // a process group of its own, so that Ctrl-C does not reach it
  bool die_with_us = false;
  bool search_path = true;
  int new_namespaces = 0;             // CLONE_NEW…
  const void *signal_mask = nullptr;  // a sigset_t; null: no signal is blocked
  std::function<void()> in_child;     // runs right before exec; must be async-signal-safe
};

// As above; `spec` says what is to be different, except for its standard input and output. Of the
// output, at most about `most_bytes` are read; then the program has no reader any more.
Result<CommandResult> run_command(Spawn spec, const std::string &input, size_t most_bytes);

// From now on, processes that spawn() starts ignore these signals. This process does not: ignoring
// a signal would discard one that is pending.
void ignore_in_children(const std::vector<int> &signals);

// Returns once the program is being executed. If that fails, *error is set to errno.
Result<pid_t> spawn(const Spawn &spec, int *error = nullptr);

// Runs the program argv[0], a path, in place of this one. Returns only if that fails.
Failure become_program(std::vector<std::string> argv);

// What a child has written into a file that was its standard output (memfd_create(2)), at most its
// first `max_bytes`.
std::string output_in(int file, size_t max_bytes);

}  // namespace ckpt::tools
