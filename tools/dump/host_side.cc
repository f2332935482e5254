// SPDX-License-Identifier: Apache-2.0
//
// CRIU's part of a dump.
#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "common/base/log.h"
#include "tools/dump/dump.h"
#include "tools/proc/command.h"
#include "tools/session/tree.h"

namespace ckpt::tools {
namespace {

constexpr const char *kLog = "dump.log";

}  // namespace

Result<> Dump::dump_host_side() {
  CKPT_TRY(SessionFolder folder, SessionFolder::create("dump-"));
  Result<> done = run_criu(folder.path());
  if (done || cancel_.signal()) return done;
  Error e = done.error();
  std::string kept = keep_log(folder.file(kLog));
  if (!kept.empty()) e.what += fmt::format("; its log is {}", kept);
  return Failure(std::move(e));
}

// A program in a PID namespace can be dumped only from inside (facts/criu.md).
std::vector<std::string> Dump::criu_command(const std::string &folder) const {
  std::vector<std::string> c;
  if (target_.own_pid_namespace)
    c = {"nsenter", "-t", std::to_string(target_.root), "-p", "-m", fmt::format("--wd={}", folder)};
  c.insert(c.end(),
           {criu_.path, "dump", "--no-default-config", "--stream", "--leave-stopped", "--shell-job",
            "--file-locks", "--ghost-limit", std::to_string(kMaxUnlinkedBytes), "-t",
            std::to_string(target_.processes.front().ns_pid()), "-D", folder, "-o", kLog, "-v4"});
  return c;
}

// CRIU inherits the connection to the keeper and our ends of the word pipes: should we be killed,
// neither hangs up before CRIU is through with the program too.
Result<> Dump::run_criu(const std::string &folder) {
  Capture capture(*image_);
  CKPT_CHECK(capture.start(folder));
  OnCancel guard(cancel_, [&] { capture.cancel(); });
  UniqueFd nothing(::open("/dev/null", O_RDWR | O_CLOEXEC));
  UniqueFd console(::open((folder + "/console").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  Spawn spec{.argv = criu_command(folder),
             .in = nothing.get(),
             .out = console.get(),
             .err = console.get(),
             .keep = agents_.outcome_pipe_ends(),
             .folder = folder,
             .own_group = true};
  spec.keep.push_back(keeper_.get());
  CKPT_TRY(pid_t criu, spawn(spec));
  int status = 0;
  while (::waitpid(criu, &status, 0) < 0 && errno == EINTR) {
  }
  bool criu_succeeded = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  stopped_ = criu_succeeded;
  Result<> captured = capture.finish();
  CKPT_CHECK(cancel_.check());
  // When the image cannot be written CRIU fails too, of a broken pipe; the cause is ours.
  if (!captured) return captured;
  if (!criu_succeeded) return Failure(criu_error(folder + "/" + kLog, "dump", status));
  return {};
}

// Beside the image that was to be: the log's folder is about to go.
std::string Dump::keep_log(const std::string &log) const {
  std::error_code ec;
  std::string kept = (in_pipe() ? "ckpt-dump" : options_.image) + ".criu.log";
  std::filesystem::copy_file(log, kept, std::filesystem::copy_options::overwrite_existing, ec);
  return ec ? "" : kept;
}

}  // namespace ckpt::tools
