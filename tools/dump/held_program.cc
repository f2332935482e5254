// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/held_program.h"

#include <signal.h>

#include <algorithm>
#include <thread>

#include "common/base/clock.h"
#include "tools/criu/interrupted_waits.h"
#include "tools/session/owners.h"
#include "tools/session/process_tree.h"

namespace ckpt::tools {
namespace {

using namespace std::chrono_literals;

constexpr auto kFirstStop = 200ms;
constexpr auto kEndTimeout = 60s;  // the kernel needs a while to free a large program's memory
constexpr u64 kStopSignal = u64{1} << (SIGSTOP - 1);

// On a busy machine, a process may stop long after its signal was sent.
bool is_stopping(const Process &p) {
  return p.state == 'T' || (p.pending_signals & kStopSignal) != 0;
}

}  // namespace

Result<> HeldProgram::hold() {
  held_.hold(ProcessTable::read().tree(target_.root));
  return check_held();
}

// The dump of the host side has failed. CRIU leaves the program stopped if it has succeeded itself,
// and its plugin (criu-plugin/dump/) if it has failed after it has touched the program. Both may
// take effect after the end of CRIU.
void HeldProgram::expect_stop() {
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
Result<> HeldProgram::check_held() {
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
bool HeldProgram::root_has_ended() {
  held_.reap();
  return !target_.root_handle.has_pid() || target_.root_handle.ends_within({});
}

Result<> HeldProgram::find_processes() {
  target_.processes = ProcessTable::read().tree(target_.root);
  if (target_.processes.empty() || root_has_ended())
    return fail("the program ended during the checkpoint");
  // A process may have got another user by executing a setuid program.
  return check_owners(ProcessTable::read(), target_);
}

Result<> HeldProgram::open_handles() {
  CKPT_TRY(handles_, handles_of_tree(target_.root, target_.processes));
  return {};
}

// The image would lack its descriptors. A stopped process can be killed at any time (by the OOM
// killer, or by a user).
Result<> HeldProgram::check_none_killed() const {
  for (const Process &before : target_.processes) {
    Result<Process> now = read_process(before.pid);
    bool same = now && now->start_ticks == before.start_ticks && now->ending == before.ending;
    if (!same) return fail("{} was killed during the checkpoint", name_of(before));
  }
  return {};
}

void HeldProgram::undo(const ReuseOfSockets &reuse) {
  if (stopped_) go_on(reuse);
  held_.release();
}

void HeldProgram::go_on(const ReuseOfSockets &reuse) {
  stopped_ = false;
  if (root_has_ended()) return held_.release();  // the keeper continues orphans
  std::vector<Process> tree = ProcessTable::read().tree(target_.root);
  restart_interrupted_waits(tree, held_);
  held_.release();
  for (Process &p : tree)
    if (p.state == 't') p.state = 'T';  // as it is without its tracer
  continue_processes(std::move(tree), stopped_before_, reuse);
}

void HeldProgram::kill() const {
  for (const ProcessHandle &p : handles_) p.signal(SIGKILL);
}

Result<> HeldProgram::wait_for_end(const std::string &image) {
  auto deadline = Clock::now() + kEndTimeout;
  for (const Process &p : target_.processes)
    while (read_process(p.pid)) {
      held_.reap();
      if (Clock::now() > deadline)
        return fail(
            "the image {} is complete, but process {} did not end within {} s of its SIGKILL",
            image, p.pid, kEndTimeout.count());
      std::this_thread::sleep_for(2ms);
    }
  return {};
}

}  // namespace ckpt::tools
