// SPDX-License-Identifier: Apache-2.0
#include "tools/proc/held_processes.h"

#include <sys/ptrace.h>
#include <sys/wait.h>

#include <algorithm>
#include <thread>

#include "common/base/clock.h"

namespace ckpt::tools {
namespace {

using namespace std::chrono_literals;

constexpr char kStopped = 'T', kTraced = 't';
constexpr auto kHoldTimeout = 3s;
constexpr auto kLookInterval = 200us;

bool is_in_stop(pid_t thread) {
  siginfo_t info;
  return ::ptrace(PTRACE_GETSIGINFO, thread, nullptr, &info) == 0;
}

bool runs(pid_t thread) {
  Result<Process> now = read_process(thread);
  return now && !now->ending && now->state != kStopped && now->state != kTraced;
}

template <typename Done>
void wait_for_all(const Done &done) {
  for (auto end = Clock::now() + kHoldTimeout; !done() && Clock::now() < end;)
    std::this_thread::sleep_for(kLookInterval);
}

}  // namespace

// A thread that is seized before it has stopped would report the signal to us instead.
void HeldProcesses::hold(const std::vector<Process> &processes) {
  std::vector<pid_t> threads;
  for (const Process &p : processes)
    for (pid_t thread : threads_of(p.pid)) threads.push_back(thread);
  wait_for_all([&] { return std::ranges::none_of(threads, runs); });
  for (pid_t thread : threads)
    if (!runs(thread) && ::ptrace(PTRACE_SEIZE, thread, nullptr, nullptr) == 0)
      held_.insert(thread);
}

pid_t HeldProcesses::find_continued(const std::vector<Process> &processes) {
  auto found = std::ranges::find_if(processes, runs, &Process::pid);
  return found == processes.end() ? 0 : found->pid;
}

bool HeldProcesses::request(pid_t thread, int ptrace_request, u64 address, void *data) const {
  return ::ptrace(static_cast<__ptrace_request>(ptrace_request), thread, address, data) == 0;
}

void HeldProcesses::reap() {
  std::erase_if(held_, [](pid_t thread) {
    int status = 0;
    pid_t ended = ::waitpid(thread, &status, __WALL | WNOHANG);
    return ended < 0 || (ended > 0 && !WIFSTOPPED(status));
  });
}

void HeldProcesses::release() {
  reap();
  for (pid_t thread : held_) {
    // One that runs after all must be stopped first.
    if (!is_in_stop(thread) && ::ptrace(PTRACE_INTERRUPT, thread, nullptr, nullptr) == 0)
      wait_for_all([&] { return is_in_stop(thread); });
    ::ptrace(PTRACE_DETACH, thread, nullptr, nullptr);
  }
  held_.clear();
}

}  // namespace ckpt::tools
