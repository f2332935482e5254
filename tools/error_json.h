// SPDX-License-Identifier: Apache-2.0
//
// A failure for programs: what --json and --json-report have under "error".
//   what     the message, with all reasons
//   hint     what to do about it; may be empty
//   reasons  if something is refused: every reason, one by one
//   kind     "refused", "usage", "cancelled" (by a signal), or "failed"
//   code     the tool's exit code
#pragma once

#include <functional>
#include <string>

#include <nlohmann/json.hpp>

#include "common/base/result.h"
#include "tools/command_line.h"
#include "tools/reasons.h"

namespace ckpt::tools {

// The reasons in a message that as_list() has made part of it.
Reasons reasons_in(const std::string &what);

inline constexpr const char *kUsage = "usage";

// {"error": …}. Without a kind, it follows from the reasons and the code.
nlohmann::json error_report(const Error &error, int code, const std::string &kind = {});

// Writes it to a file that a user has named. That this fails is only logged.
void write_error_report(const std::string &path, const Error &error, int code,
                        const std::string &kind = {});

// For a tool that has --json-report=FILE (`path`, which is absolute; empty: none). A failure is
// reported there, too: one with an exit code of its own, and what the tool's main part returns.
int fail_with_report(const std::string &path, int code, const Error &error);
Result<int> with_report(Result<int> code, const std::string &path, int failed);

// As run_tool(), for a tool that has --json (`as_json`, which parsing sets): what fails is reported
// on standard output, too, in place of the tool's report.
int run_tool_with_json(CommandLine &line, int argc, const char *const *argv, int failed,
                       const bool &as_json, const std::function<Result<int>()> &run);

}  // namespace ckpt::tools
