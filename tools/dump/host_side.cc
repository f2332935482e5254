// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/host_side.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "common/base/new_file.h"
#include "common/proc/file.h"
#include "helper/criu_arguments.h"
#include "helper/process_namespace.h"
#include "tools/criu/criu_by_helper.h"
#include "tools/criu/stream_capture.h"
#include "tools/dump/hung_criu.h"
#include "tools/dump/link_remaps.h"
#include "tools/dump/preflight.h"
#include "tools/proc/command.h"
#include "tools/session/session_folder.h"

namespace ckpt::tools {
namespace {

constexpr const char *kLog = "dump.log";

// CRIU finds processes and files by the PIDs and paths that it sees itself, and would save every
// namespace that is not its own. So it runs in those of the program: the root's PIDs and mounts,
// which a restore may have made for it, and for the rest those of the root's parent.
struct Entered {
  std::vector<UniqueFd> namespaces;  // nsenter opens them by our descriptors
  std::vector<std::string> options;
};

Result<Entered> entered_namespaces(const Target &target) {
  struct Kind {
    const char *name, *option;
    pid_t of;
  };
  pid_t root = target.root, parent = target.processes.front().parent;
  Entered entered;
  for (Kind k :
       {Kind{"pid", "pid", root}, Kind{"mnt", "mount", root}, Kind{"net", "net", parent},
        Kind{"uts", "uts", parent}, Kind{"ipc", "ipc", parent}, Kind{"cgroup", "cgroup", parent}})
    if (u64 its = namespace_of(k.of, k.name); its && its != namespace_of(::getpid(), k.name)) {
      CKPT_TRY(UniqueFd opened, helper::open_namespace(k.of, k.name));
      entered.options.push_back(
          fmt::format("--{}={}", k.option, proc::fd_path(::getpid(), opened.get())));
      entered.namespaces.push_back(std::move(opened));
    }
  return entered;
}

// The folder may have no name in the program's mount namespace, so it is the working folder.
std::vector<std::string> criu_command(const HostSide &side, const std::string &folder,
                                      std::vector<std::string> c) {
  const Target &target = side.target;
  bool other_mounts = std::ranges::any_of(
      c, [](const std::string &option) { return option.starts_with("--mount="); });
  if (!c.empty()) {
    c.insert(c.begin(), "nsenter");
    c.push_back(fmt::format("--wd={}", folder));
  }
  std::vector<std::string> criu =
      helper::dump_arguments({.criu = side.criu.path,
                              .folder = ".",
                              .plugins = other_mounts ? "" : helper::dump_plugins(),
                              .log = kLog,
                              .errors_only = errors_only(target.smallest_file_size_limit()),
                              .unprivileged = side.rights.without_root(),
                              .tcp_close = side.tcp_close},
                             target.processes.front().ns_pid());
  c.insert(c.end(), criu.begin(), criu.end());
  return c;
}

// CRIU writes its log while its parasite code is inside the program, so a log larger than `ulimit
// -f` must not end CRIU. The log is truncated instead.
void ignore_file_size_signal() { ::signal(SIGXFSZ, SIG_IGN); }

// Returns CRIU's wait status.
Result<int> run_criu(const HostSide &side, const std::string &folder, StreamCapture &capture) {
  CKPT_TRY(Entered entered, entered_namespaces(side.target));
  CKPT_CHECK(capture.start(folder));
  UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  UniqueFd console(::open((folder + "/console").c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
  CKPT_TRY(pid_t criu, spawn({.argv = criu_command(side, folder, entered.options),
                              .in = null.get(),
                              .out = console.get(),
                              .err = console.get(),
                              .keep = side.inherited,
                              .folder = folder,
                              .own_group = true,
                              .in_child = [keep = keep_own_capabilities(side.rights)] {
                                ignore_file_size_signal();
                                keep();
                              }}));
  CKPT_CHECK(wait_for_criu(criu, side.target, side.cancel, [&] { capture.abandon(); }));
  return reap_criu(criu, side.target);
}

Result<int> run_criu_by_helper(const HostSide &side, const std::string &folder,
                               StreamCapture &capture) {
  helper::Request request;
  request.type = helper::Type::Dump;
  request.root = side.target.root;
  if (errors_only(side.target.smallest_file_size_limit())) request.flags = helper::kErrorsOnly;
  request.log.reset(
      ::open((folder + "/" + kLog).c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  std::vector<std::pair<int, u64>> inherited;
  for (int fd : side.inherited) inherited.emplace_back(fd, 0);
  request.inherited = copies_of(inherited);
  CKPT_TRY(UniqueFd helper, connect_helper(side.rights, side.criu));
  CKPT_TRY(HelperRun run, request_run(helper.get(), request));
  if (run.streams) CKPT_CHECK(capture.start(std::move(run.streams)));
  CKPT_CHECK(wait_for_criu(run.pid, side.target, side.cancel, [&] { capture.abandon(); }));
  helper::Event ended{};
  // Without an answer the helper was killed. CRIU may have left the program stopped.
  return read_exactly(helper.get(), &ended, sizeof ended) ? ended.value : SIGKILL;
}

Result<> dump_in(const std::string &folder, const HostSide &side) {
  StreamCapture capture(side.image, side.record.facts);
  OnCancel guard(side.cancel, [&] { capture.discard(); });
  CKPT_TRY(int status, side.rights.by_helper() ? run_criu_by_helper(side, folder, capture)
                                               : run_criu(side, folder, capture));
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) side.program.note_stopped();
  if (was_killed(status)) {
    side.program.note_stopped();  // perhaps: it stops the processes one after the other
    report_parasites(side.target);
  }
  Result<> captured = capture.finish();
  side.record.identities = capture.identities();
  CKPT_CHECK(side.cancel.check());
  // A CRIU that was abandoned fails because of a broken pipe. The error of the image is the cause.
  if (!captured) return captured;
  if (status != 0) return Failure(criu_error(folder + "/" + kLog, "dump", status));
  return {};
}

}  // namespace

Result<> dump_host_side(const HostSide &side) {
  CKPT_TRY(SessionFolder folder, SessionFolder::create("dump-"));
  Result<> done = dump_in(folder.path(), side);
  if (side.program.is_stopped())
    side.record.links = keep_link_remaps(side.target, read_descriptors(side.target));
  if (done || side.cancel.signal()) return done;
  Error e = done.error();
  UniqueFd log(::open(folder.file(kLog).c_str(), O_RDONLY | O_CLOEXEC));
  if (log && copy_to_new_file(log.get(), side.kept_log))
    e.what += fmt::format("; its log is {}", side.kept_log);
  return Failure(std::move(e));
}

}  // namespace ckpt::tools
