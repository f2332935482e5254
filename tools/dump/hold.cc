// SPDX-License-Identifier: Apache-2.0
//
// The program between the end of CRIU and the end of the dump: stopped, whatever signals it gets.
#include <signal.h>

#include <algorithm>
#include <thread>

#include "common/base/clock.h"
#include "tools/criu/interrupted_waits.h"
#include "tools/dump/dump.h"

namespace ckpt::tools {
namespace {

using namespace std::chrono_literals;

constexpr auto kFirstStop = 200ms;
constexpr u64 kStopSignal = u64{1} << (SIGSTOP - 1);

// On a busy machine, a process may stop long after its signal was sent.
bool is_stopping(const Process &p) {
  return p.state == 'T' || (p.pending_signals & kStopSignal) != 0;
}

}  // namespace

// The image would be older than what the program has done since.
Result<> Dump::hold() {
  held_.hold(ProcessTable::read().tree(target_.root));
  return check_held();
}

// The dump of the host side has failed. CRIU leaves the program stopped if it has succeeded itself,
// and its plugin (criu-plugin/dump/) if it has failed after it has touched the program. Both may
// take effect after the end of CRIU.
void Dump::expect_stop() {
  std::vector<Process> tree;
  auto stops = [&] {
    tree = ProcessTable::read().tree(target_.root);
    return std::ranges::any_of(
        tree, [&](const Process &p) { return is_stopping(p) && !stopped_before_.contains(p.pid); });
  };
  bool stopping = false;
  for (auto end = Clock::now() + kFirstStop; !(stopping = stops()) && Clock::now() < end;)
    std::this_thread::sleep_for(1ms);
  if (stopping) held_.hold(tree);
  stopped_ = true;  // perhaps
}

// Of threads that may not be held, SIGCONT in the last moments before the end of the program is not
// noticed.
Result<> Dump::check_held() {
  if (!stopped_) return {};  // it runs again
  pid_t continued = HeldProcesses::find_continued(target_.processes);
  if (continued == 0) return {};
  was_continued_ = true;
  return fail_with_hint(
      fmt::format("process {} was continued by a signal (SIGCONT) in the middle of the checkpoint",
                  continued),
      "run ckpt-dump again");
}

// The keeper may not have reaped it yet.
bool Dump::root_has_ended() {
  held_.reap();
  return !target_.root_handle.has_pid() || target_.root_handle.ends_within({});
}

// The lock goes first: a connection that leaves repair mode asks the other end at once where it
// stands, instead of after a timeout.
void Dump::continue_program() {
  connection_lock_.release();
  stopped_ = false;
  if (root_has_ended()) return held_.release();  // the keeper continues orphans
  std::vector<Process> tree = ProcessTable::read().tree(target_.root);
  restart_interrupted_waits(tree, held_);
  held_.release();
  for (Process &p : tree)
    if (p.state == 't') p.state = 'T';  // as it is without its tracer
  continue_processes(std::move(tree), stopped_before_, reuse_);
}

}  // namespace ckpt::tools
