// SPDX-License-Identifier: Apache-2.0
#include "tools/session/dump_tools.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "common/base/json_fields.h"
#include "common/base/json_text.h"
#include "common/base/log.h"
#include "tools/device/apis.h"
#include "tools/proc/command.h"
#include "tools/session/isolation.h"

namespace ckpt::tools {
namespace {

// The report of a job has a part for each member, of which there may be thousands.
constexpr size_t kMaxReportBytes = 16u << 20;

}  // namespace

Result<> DumpTools::start(std::vector<std::string> arguments, const std::string &folder, Of of,
                          Ended ended, const std::vector<int> &inherited) {
  UniqueFd report(::memfd_create("ckpt-dump-report", MFD_CLOEXEC));
  UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  arguments.insert(arguments.begin(), {sibling_tool("ckpt-dump"), "--json"});
  Spawn spec{.argv = std::move(arguments),
             .in = null.get(),
             .out = report.get(),
             .err = null.get(),
             .keep = inherited,
             .folder = folder,
             .own_group = true,
             .in_child = keep_isolation()};
  CKPT_TRY(pid_t pid, spawn(spec));
  running_.push_back({pid, of, std::move(report), std::move(ended)});
  return {};
}

void DumpTools::reaped(pid_t pid, int wait_status) {
  auto it = std::ranges::find(running_, pid, &Running::pid);
  if (it == running_.end()) return;
  Running dump = std::move(*it);
  running_.erase(it);
  dump.ended(wait_status, parse_json(output_in(dump.report.get(), kMaxReportBytes)));
}

bool DumpTools::any_of_program() const {
  return std::ranges::find(running_, Of::Program, &Running::of) != running_.end();
}

Error dump_error(const nlohmann::json &report) {
  const nlohmann::json &error = json_member(report, "error");
  return {json_string(error, "what", "ckpt-dump failed"), json_string(error, "hint")};
}

void DumpWarnings::say(const nlohmann::json &report) {
  std::vector<std::string> now;
  for (const nlohmann::json &warning : json_list(report, "warnings")) {
    if (!warning.is_string()) continue;
    now.push_back(warning.get<std::string>());
    if (std::ranges::find(last_, now.back()) == last_.end()) log::warn("{}", now.back());
  }
  last_ = std::move(now);
}

}  // namespace ckpt::tools
