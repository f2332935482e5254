// SPDX-License-Identifier: Apache-2.0
//
// ckpt-restore --resume, and its dry run, as commands: each prints what it did, and returns the
// exit code.
#pragma once

#include <optional>

#include "common/base/result.h"
#include "tools/command_line.h"
#include "tools/restore/resume.h"

namespace ckpt::tools {

struct DryRunCommand {
  bool given = false, json = false;
  double watch = 2;            // seconds
  std::optional<double> step;  // seconds
};

void add_dry_run_options(CommandLine &line, DryRunCommand &command, const Option &resumed);
// Of an image that was checked.
void say_possible(const DryRunCommand &command, const std::string &image);
Result<int> run_resume(const ResumeOptions &options);
Result<int> run_dry_run(const DryRunCommand &command, const ResumeOptions &options);

}  // namespace ckpt::tools
