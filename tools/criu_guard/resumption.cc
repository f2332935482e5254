// SPDX-License-Identifier: Apache-2.0
#include "tools/criu_guard/resumption.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <syslog.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "common/base/log.h"
#include "tools/device/apis.h"
#include "tools/proc/command.h"
#include "tools/proc/freezer.h"
#include "tools/proc/process.h"
#include "tools/session/target.h"

namespace ckpt::tools {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::milliseconds kFirstPoll = 10ms, kLastPoll = 500ms;
constexpr size_t kMaxReport = 4000;

struct Resume {
  pid_t keeper;
  pid_t tool;
  UniqueFd errors;  // what the tool has said
};

bool is_held(const Process &p) { return p.tracer != 0 || p.state == 'T' || p.state == 't'; }

// The keeper and the agents can answer. Other processes of the program may be stopped.
bool is_free(pid_t keeper) {
  for (const Process &p : ProcessTable::read().tree(keeper))
    if ((p.pid == keeper || runs_agent(p.pid)) && is_held(p)) return false;
  return !Freezer::holding(keeper);
}

// False: the program has ended. A dead process is free as well, and a restore may already have
// given its PID to the copy.
bool wait_until_free(const SuspendedProgram &program) {
  for (auto poll = kFirstPoll; !program.handle.ends_within(poll);
       poll = std::min(2 * poll, kLastPoll))
    if (is_free(program.keeper)) return !program.handle.ends_within(0ms);
  return false;
}

Result<Resume> start_resume(pid_t keeper) {
  UniqueFd errors(::memfd_create("ckpt-resume", MFD_CLOEXEC));
  if (!errors) return fail_errno("cannot create a file in memory");
  CKPT_TRY(pid_t tool,
           spawn({.argv = {sibling_tool("ckpt-restore"), "--resume", std::to_string(keeper)},
                  .err = errors.get()}));
  return Resume{keeper, tool, std::move(errors)};
}

void report(pid_t keeper, const std::string &why) {
  log::error(Error{fmt::format("the program of process {} stays suspended: {}", keeper, why),
                   fmt::format("ckpt-restore --resume {} resumes it", keeper)});
  ::openlog("ckpt-criu-guard", LOG_PID, LOG_DAEMON);
  ::syslog(LOG_ERR, "the program of process %d stays suspended: %s", keeper, why.c_str());
}

void finish(const Resume &r) {
  int status = 0;
  while (::waitpid(r.tool, &status, 0) < 0 && errno == EINTR) continue;
  if (status != 0) report(r.keeper, output_in(r.errors.get(), kMaxReport));
}

}  // namespace

Result<SuspendedProgram> SuspendedProgram::open(pid_t keeper) {
  CKPT_TRY(ProcessHandle handle, ProcessHandle::open(keeper));
  return SuspendedProgram{keeper, std::move(handle)};
}

void resume_when_free(const std::vector<SuspendedProgram> &programs) {
  std::vector<Resume> under_way;
  for (const SuspendedProgram &p : programs) {
    if (!wait_until_free(p)) continue;
    Result<Resume> started = start_resume(p.keeper);
    if (started)
      under_way.push_back(std::move(*started));
    else
      report(p.keeper, started.error().text());
  }
  for (const Resume &r : under_way) finish(r);
}

}  // namespace ckpt::tools
