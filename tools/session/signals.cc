// SPDX-License-Identifier: Apache-2.0
#include "tools/session/signals.h"

#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "common/base/text.h"

namespace ckpt::tools {
namespace {

struct sigaction g_child_action;
std::optional<sigset_t> g_mask_before;  // block()

sigset_t keeper_set() {
  sigset_t set;
  ::sigemptyset(&set);
  for (int s : {SIGCHLD, SIGINT, SIGQUIT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGWINCH, SIGTSTP,
                SIGCONT, SIGALRM, SIGTTIN, SIGTTOU, SIGPIPE, SIGXCPU})
    ::sigaddset(&set, s);
  return set;
}

void remove_held(sigset_t &mask) {
  const char *names = std::getenv(kHeldSignals);
  for (const std::string &name : split_at_commas(names ? names : ""))
    if (int signal = KeeperSignals::named(name)) ::sigdelset(&mask, signal);
}

}  // namespace

void KeeperSignals::block() {
  sigset_t set = keeper_set(), before{};
  ::sigprocmask(SIG_BLOCK, &set, &before);
  if (g_mask_before) return;
  remove_held(before);
  g_mask_before = before;
}

std::vector<int> KeeperSignals::of_batch_systems() {
  return {SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM, SIGTERM, SIGXCPU};
}

int KeeperSignals::named(std::string name) {
  if (name.starts_with("SIG")) name.erase(0, 3);
  for (int s : of_batch_systems())
    if (name == ::sigabbrev_np(s) || name == std::to_string(s)) return s;
  return 0;
}

Result<KeeperSignals> KeeperSignals::take() {
  KeeperSignals s;
  // An ignored SIGCHLD is inherited through exec, and waitpid(2) would then return no exit code.
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(SIGCHLD, &standard, &g_child_action);
  block();
  s.original_mask_ = *g_mask_before;
  sigset_t set = keeper_set();
  s.fd_.reset(::signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!s.fd_) return fail_errno("cannot create a signalfd");
  return s;
}

std::optional<signalfd_siginfo> KeeperSignals::next() {
  signalfd_siginfo info{};
  if (::read(fd_.get(), &info, sizeof info) != sizeof info) return std::nullopt;
  return info;
}

void KeeperSignals::restore_dispositions() { ::sigaction(SIGCHLD, &g_child_action, nullptr); }

bool from_terminal(const signalfd_siginfo &info) { return info.ssi_code == SI_KERNEL; }

void end_like(int wait_status) {
  if (WIFEXITED(wait_status)) std::exit(WEXITSTATUS(wait_status));
  int signal = WTERMSIG(wait_status);
  rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);
  ::signal(signal, SIG_DFL);
  sigset_t set;
  ::sigemptyset(&set);
  ::sigaddset(&set, signal);
  ::sigprocmask(SIG_UNBLOCK, &set, nullptr);
  ::raise(signal);
  std::exit(128 + signal);
}

}  // namespace ckpt::tools
