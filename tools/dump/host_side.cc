// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/host_side.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>

#include "tools/criu/stream_capture.h"
#include "tools/dump/hung_criu.h"
#include "tools/dump/preflight.h"
#include "tools/proc/command.h"
#include "tools/session/session_folder.h"

namespace ckpt::tools {
namespace {

constexpr const char *kLog = "dump.log";

// A program in a PID namespace of its own is dumped from inside of it, because CRIU finds processes
// by the PIDs that it sees itself.
std::vector<std::string> criu_command(const HostSide &side, const std::string &folder) {
  const Target &target = side.target;
  std::vector<std::string> c;
  if (target.own_pid_namespace)
    c = {"nsenter", "-t", std::to_string(target.root), "-p", "-m", fmt::format("--wd={}", folder)};
  c.insert(c.end(), {side.criu.path,
                     "dump",
                     "--no-default-config",
                     "--libdir",
                     folder,
                     "--stream",
                     "--leave-stopped",
                     "--shell-job",
                     "--file-locks",
                     "--link-remap",
                     "--tcp-established",
                     "--network-lock",
                     "skip",
                     "--ghost-limit",
                     std::to_string(kMaxUnlinkedBytes),
                     "-t",
                     std::to_string(target.processes.front().ns_pid()),
                     "-D",
                     folder,
                     "-o",
                     kLog,
                     log_level(target.smallest_file_size_limit())});
  return c;
}

// CRIU writes its log while its parasite is inside the program, so a log beyond `ulimit -f` must
// not end it. It is cut short instead.
void ignore_file_size_signal() { ::signal(SIGXFSZ, SIG_IGN); }

// Returns CRIU's wait status.
Result<int> run_criu(const HostSide &side, const std::string &folder) {
  UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  UniqueFd console(::open((folder + "/console").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  CKPT_TRY(pid_t criu, spawn({.argv = criu_command(side, folder),
                              .in = null.get(),
                              .out = console.get(),
                              .err = console.get(),
                              .keep = side.inherited,
                              .folder = folder,
                              .own_group = true,
                              .in_child = ignore_file_size_signal}));
  return wait_for_criu(criu, side.target, side.cancel);
}

// A wrapper, such as nsenter, reports a signal as a shell does.
bool was_killed(int status) { return WIFSIGNALED(status) || WEXITSTATUS(status) > 128; }

Result<> dump_in(const std::string &folder, const HostSide &side, bool &stopped) {
  StreamCapture capture(side.image);
  CKPT_CHECK(capture.start(folder));
  OnCancel guard(side.cancel, [&] { capture.cancel(); });
  CKPT_TRY(int status, run_criu(side, folder));
  stopped = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  if (was_killed(status)) {
    stopped = true;  // perhaps: it stops the processes one after the other
    report_parasites(side.target);
  }
  Result<> captured = capture.finish();
  CKPT_CHECK(side.cancel.check());
  // If the image cannot be written, CRIU fails too, because of a broken pipe. The error of the
  // image is the cause.
  if (!captured) return captured;
  if (status != 0) return Failure(criu_error(folder + "/" + kLog, "dump", status));
  return {};
}

}  // namespace

Result<> dump_host_side(const HostSide &side, bool &stopped) {
  CKPT_TRY(SessionFolder folder, SessionFolder::create("dump-"));
  Result<> done = dump_in(folder.path(), side, stopped);
  if (done || side.cancel.signal()) return done;
  Error e = done.error();
  std::error_code ec;
  std::filesystem::copy_file(folder.file(kLog), side.kept_log,
                             std::filesystem::copy_options::overwrite_existing, ec);
  if (!ec) e.what += fmt::format("; its log is {}", side.kept_log);
  return Failure(std::move(e));
}

}  // namespace ckpt::tools
