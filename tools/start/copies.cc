// SPDX-License-Identifier: Apache-2.0
#include "tools/start/copies.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "common/base/io.h"
#include "common/base/log.h"
#include "tools/command_line.h"
#include "tools/json_text.h"

namespace ckpt::tools {
namespace {

constexpr size_t kMostReportBytes = 1 << 20;

// For the signal handler. A keeper whose copy starts takes them for a cancellation, later they are
// the program's.
constexpr size_t kMostKeepers = 4096;
std::array<volatile pid_t, kMostKeepers> g_keepers{};
volatile sig_atomic_t g_count = 0;

void forward_signals() {
  struct sigaction action {};
  action.sa_handler = [](int signal) {
    int error = errno;
    for (int i = 0; i < g_count; i++)
      if (g_keepers[static_cast<size_t>(i)] > 0) ::kill(g_keepers[static_cast<size_t>(i)], signal);
    errno = error;
  };
  action.sa_flags = SA_RESTART;
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2})
    ::sigaction(signal, &action, nullptr);
}

void default_signals() {
  for (int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2}) ::signal(signal, SIG_DFL);
}

void leave_terminal() {
  int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, fd);
  if (null > 2) ::close(null);
}

// The line of a child, or what it has written before it ended.
std::string read_line(int fd) {
  std::string line;
  char c = 0;
  while (line.size() < kMostReportBytes && ::read(fd, &c, 1) == 1 && c != '\n') line += c;
  return line;
}

nlohmann::json parse(const std::string &line) {
  nlohmann::json j = nlohmann::json::parse(line, nullptr, false);
  return j.is_object() ? j : nlohmann::json::object();
}

}  // namespace

int Copies::run_child(u32 number, bool detach, UniqueFd out, const Body &body) {
  default_signals();
  all_.clear();
  auto write_line = [&out](const nlohmann::json &j) {
    if (out) (void)write_all(out.get(), view(json_text(j) + "\n"));
    out.reset();
  };
  Result<int> code = body(number, [&](const nlohmann::json &facts) {
    write_line(facts);
    if (detach) leave_terminal();
  });
  if (code) return *code;
  write_line({{"error", {{"what", code.error().what}, {"hint", code.error().hint}}}});
  Error why = code.error();
  why.what = fmt::format("copy {}: {}", number, why.what);
  return fail_with_code(kStartFailed, why);
}

std::optional<int> Copies::start(u32 count, bool detach, const Body &body) {
  forward_signals();
  for (u32 number = 1; number <= count; number++) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) < 0)
      return fail_with_code(kStartFailed, {"cannot make a pipe", ""});
    UniqueFd in(ends[0]), out(ends[1]);
    pid_t child = ::fork();
    if (child == 0) return run_child(number, detach, std::move(out), body);
    all_.push_back({number, child, std::move(in), nlohmann::json::object(), false, std::nullopt});
    if (child < 0) {
      all_.back().facts["error"] = {{"what", "cannot start a process"}, {"hint", ""}};
      all_.back().wait_status = kStartFailed << 8;
    }
    g_keepers[number - 1] = child;
    g_count = static_cast<int>(number);
  }
  return std::nullopt;
}

void Copies::wait_until_running(
    const std::function<void(u32 number, const nlohmann::json &)> &each) {
  for (One &one : all_) {
    if (one.wait_status) continue;
    one.facts = parse(read_line(one.reports.get()));
    one.running = one.facts.contains("pid");
    if (one.running) each(one.number, one.facts);
  }
}

void Copies::wait_for_ends(const std::function<void(u32 number, int wait_status)> &each) {
  int status = 0;
  for (pid_t pid; (pid = ::waitpid(-1, &status, 0)) > 0 || errno == EINTR;) {
    auto one = std::ranges::find(all_, pid, &One::keeper);
    if (pid <= 0 || one == all_.end()) continue;
    g_keepers[one->number - 1] = 0;  // its PID may be used again
    one->wait_status = status;
    each(one->number, status);
  }
}

bool Copies::all_running() const { return std::ranges::all_of(all_, &One::running); }

nlohmann::json Copies::report() const {
  nlohmann::json list = nlohmann::json::array();
  for (const One &one : all_) {
    nlohmann::json &j = list.emplace_back(one.facts);
    j["copy"] = one.number;
    j["keeper"] = one.keeper;
    if (!one.wait_status) continue;
    if (WIFSIGNALED(*one.wait_status))
      j["signal"] = WTERMSIG(*one.wait_status);
    else
      j["exit_code"] = WEXITSTATUS(*one.wait_status);
  }
  return list;
}

int Copies::exit_code() const {
  auto code_of = [](const One &one) {
    int status = one.wait_status.value_or(0);
    return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  };
  if (all_.size() == 1) return code_of(all_.front());
  return std::ranges::all_of(all_, [&](const One &one) { return code_of(one) == 0; })
             ? 0
             : kStartFailed;
}

}  // namespace ckpt::tools
