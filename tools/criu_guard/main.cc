// SPDX-License-Identifier: Apache-2.0
//
// ckpt-criu-guard: what CRIU's plugin (criu-plugin/ckpt_plugin.c) has done by a process that
// outlives CRIU. It inherits the connection to the plugin and the folder of CRIU's image.
//
//   ckpt-criu-guard dump ROOT LIMIT-MS    suspends, answers, and resumes when the plugin hangs up
//   ckpt-criu-guard restore ROOT 0        resumes what was suspended in the dump
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>

#include "common/base/log.h"
#include "common/base/shortage.h"
#include "common/base/words.h"
#include "tools/command_line.h"
#include "tools/criu_guard/dump_guard.h"
#include "tools/criu_guard/programs_below.h"

namespace ckpt::tools {
namespace {

constexpr int kPlugin = 3, kImage = 4;
constexpr size_t kMaxText = 8000;  // the plugin reads so much

// One message: '+', or '-' and why not. It is '0' where there is nothing to guard.
void answer(const Result<> &result) {
  std::string text = result ? "+" : "-" + result.error().text();
  ::send(kPlugin, text.data(), std::min(text.size(), kMaxText), MSG_NOSIGNAL);
}

// Until CRIU is done with the processes, or has ended.
void serve(pid_t root) {
  char request[16];
  for (ssize_t n = 0; (n = ::recv(kPlugin, request, sizeof request, 0)) != 0;) {
    if (n < 0 && errno != EINTR) return;
    if (n > 0) answer(guarded([&] { return check_residue_below(root); }));
  }
}

// Standard error belonged to CRIU's caller, which may wait for its end.
void log_beside_image() {
  UniqueFd log(::openat(kImage, "ckpt-plugin.log",
                        O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
  if (log) ::dup2(log.get(), STDERR_FILENO);
}

int dump(pid_t root, std::chrono::milliseconds limit) {
  if (!has_programs_below(root)) {
    (void)write_record(kImage, {});  // of an earlier dump into the same folder
    return ::send(kPlugin, "0", 1, MSG_NOSIGNAL) == 1 ? 0 : 1;
  }
  log_beside_image();
  DumpGuard guard(root, kImage);
  bool suspended = guard.suspend(limit, answer);
  if (suspended) serve(root);
  resume_when_free(guard.suspended());
  return suspended ? 0 : 1;
}

int restore(pid_t root) {
  std::vector<NestedPid> keepers = read_record(kImage);
  std::vector<SuspendedProgram> programs;
  std::vector<Process> tree = ProcessTable::read().tree(root);
  if (keepers.empty() || tree.empty()) return 0;
  log_beside_image();
  for (const Process &p : tree) {
    NestedPid pid = nested_pid(p, tree.front().ns_pids.size());
    if (std::ranges::find(keepers, pid) == keepers.end()) continue;
    if (Result<SuspendedProgram> found = SuspendedProgram::open(p.pid))
      programs.push_back(std::move(*found));
  }
  resume_when_free(programs);
  return 0;
}

int wrong_usage() {
  log::error(Error{"CRIU's plugin starts this program", "see docs/CONTAINERS.md"});
  return kWrongUsage;
}

int guard_main(int argc, char **argv) {
  pid_t root = 0;
  int limit = 0;
  constexpr int kArguments = 4;
  if (argc != kArguments || !parse_number(argv[2], root) || !parse_number(argv[3], limit))
    return wrong_usage();
  std::string_view task = argv[1];
  if (task == "dump") return dump(root, std::chrono::milliseconds(limit));
  return task == "restore" ? restore(root) : wrong_usage();
}

}  // namespace
}  // namespace ckpt::tools

int main(int argc, char **argv) {
  ckpt::log::set_name("ckpt-criu-guard");
  ckpt::Result<int> code =
      ckpt::guarded([&]() -> ckpt::Result<int> { return ckpt::tools::guard_main(argc, argv); });
  return code ? *code : ckpt::tools::fail_with_code(1, code.error());
}
