// SPDX-License-Identifier: Apache-2.0
#include "tools/session/keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <span>
#include <thread>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "tools/criu/interrupted_waits.h"
#include "tools/session/end_mark.h"
#include "tools/session/leftovers.h"
#include "tools/session/process_tree.h"
#include "tools/session/stop_watcher.h"

namespace ckpt::tools {
namespace {

// ckpt-dump itself removes the mark if the program continues before the image is complete.
void mark_dump(const SessionFolder &folder, bool under_way) {
  std::string marker = folder.file(protocol::kDumpMarker);
  if (under_way)
    std::ofstream{marker};
  else
    ::unlink(marker.c_str());
}

bool ends_a_tool(int signal) {
  return signal == SIGINT || signal == SIGTERM || signal == SIGHUP || signal == SIGQUIT;
}

}  // namespace

Result<std::unique_ptr<Keeper>> Keeper::create(Options options) {
  (void)remove_leftovers();
  CKPT_TRY(SessionFolder folder, SessionFolder::create());
  CKPT_TRY(KeeperSignals signals, KeeperSignals::take());
  std::unique_ptr<Keeper> k(new Keeper(std::move(options), std::move(folder), std::move(signals)));
  k->socket_path_ = k->folder_.file(protocol::kSessionSocket);
  CKPT_CHECK(k->requests_.listen(k->socket_path_));
  CKPT_CHECK(k->posted_.open());
  std::string foreign;
  for (pid_t child : k->processes_.note_foreign()) foreign += fmt::format("{}\n", child);
  k->files_.write(kForeignChildrenFile, foreign);
  CKPT_CHECK(k->renew_files_hourly());
  // Orphans of the program become our children, so that ckpt-dump recognises them, and no zombie of
  // a dumped program keeps its PID in use.
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  return k;
}

Result<> Keeper::renew_files_hourly() {
  constexpr time_t kHour = 3600;
  renewal_.reset(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
  itimerspec t{.it_interval = {kHour, 0}, .it_value = {kHour, 0}};
  if (!renewal_ || ::timerfd_settime(renewal_.get(), 0, &t, nullptr) != 0)
    return fail_errno("cannot create a timer");
  watch(renewal_.get(), [this] {
    u64 times;
    if (::read(renewal_.get(), &times, sizeof times) != sizeof times) return true;
    files_.renew();
    if (hooks_.renewed) hooks_.renewed();
    return true;
  });
  return {};
}

void Keeper::program_started(pid_t pid, bool own_session) {
  program_ = pid;
  own_session_ = own_session;
  for (int signal : std::exchange(early_signals_, {})) forward(signal);
}

void Keeper::program_ready() {
  files_.write(kProgramFile, fmt::format("{}\n", program_));
  ready_ = true;
}

void Keeper::write_file(std::string_view name, const std::string &content) {
  files_.write(name, content);
}

void Keeper::image_written(const std::string &image) {
  last_image_ = image;
  struct stat index {};
  if (::stat((image + "/index.ckpt").c_str(), &index) != 0) index.st_mtime = ::time(nullptr);
  files_.write(kLastImageFile, fmt::format("{} {}\n", index.st_mtime, image));
  if (ended_ && WIFEXITED(outcome_.wait_status)) mark_ended(image);
}

// Job control has stopped the program. Stops the keeper too, so that its parent sees the job stop.
// During a dump it is CRIU that stops the program, which the parent must not see.
void Keeper::program_stopped(int signal) {
  if (dump_.open > 0) return;
  log::debug("the program was stopped by signal {}", signal);
  // Another process may have continued the program already.
  if (Result<Process> p = read_process(program_); !p || p->state != 'T') return;
  if (hooks_.before_stop) hooks_.before_stop();
  StopWatcher watcher(program_);
  stop_watcher_ = watcher.pid();
  if (watcher.started()) ::kill(::getpid(), SIGSTOP);
  if (hooks_.after_stop) hooks_.after_stop();
}

void Keeper::program_ended(int wait_status) {
  ended_ = true;
  outcome_.wait_status = wait_status;
  if (dump_.image && WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL)
    outcome_.image = dump_.image;
  if (WIFEXITED(wait_status) && !last_image_.empty()) mark_ended(last_image_);
}

void Keeper::program_failed(Error why) {
  ended_ = true;
  outcome_.error = std::move(why);
}

void Keeper::watch(int fd, std::function<bool()> f) { watches_.push_back({fd, std::move(f)}); }

Result<> Keeper::start_dump(const std::vector<std::string> &arguments, const std::string &folder,
                            DumpEnded ended, const std::vector<int> &inherited) {
  std::vector<std::string> all{std::to_string(program_)};
  all.insert(all.end(), arguments.begin(), arguments.end());
  if (carries_files_ && std::ranges::find(arguments, "--with-files") == arguments.end())
    all.emplace_back("--with-files");
  return dumps_.start(std::move(all), folder, DumpTools::Of::Program, std::move(ended), inherited);
}

Result<> Keeper::start_job_dump(const std::vector<std::string> &arguments,
                                const std::string &folder, DumpEnded ended) {
  return dumps_.start(arguments, folder, DumpTools::Of::Job, std::move(ended), {});
}

void Keeper::dump_begins(bool on_new_connection) {
  if (dump_.open == 0) dump_.stopped_before = stopped_in(ProcessTable::read().tree(program_));
  if (on_new_connection) dump_.open++;
  mark_dump(folder_, true);
}

// ckpt-dump has ended, and so has its CRIU, which shares the connection. If the tool was killed,
// the program may still be stopped: continue it. But if the image was complete, the program must
// not run beside its image, which --leave-running would have requested: end it.
void Keeper::dump_disconnected() {
  dump_.open--;
  if (dump_.open == 0) mark_dump(folder_, false);
  if (!program_) return;
  if (!dump_.image)
    continue_program();
  else if (!ended_)
    kill_tree(program_);
  else
    for (const Process &p : processes_.all()) ::kill(p.pid, SIGKILL);
}

// If the program's root was killed meanwhile, its orphans continue.
void Keeper::continue_program() {
  std::vector<Process> all = processes_.all();
  restart_interrupted_waits(all);
  continue_processes(std::move(all), dump_.stopped_before);
}

void Keeper::image_complete(std::string image, std::optional<std::string> moved_to) {
  dump_.image = std::move(image);
  if (moved_to) outcome_.moved_to = std::move(moved_to);
  for (const Process &p : ProcessTable::read().tree(program_)) dump_.processes.push_back(p.pid);
}

Keeper::Outcome Keeper::run() {
  while (!finished()) turn();
  requests_.settle();
  if (outcome_.image) reap_dumped_processes();
  return std::move(outcome_);
}

// ckpt-dump has killed all processes of the program, and its orphans have become our children. They
// must be reaped before we exit, so that their PIDs are free for a restore.
void Keeper::reap_dumped_processes() {
  using namespace std::chrono_literals;
  proxies_.kill_all();
  for (auto end = Clock::now() + 10s; Clock::now() < end;) {
    while (::waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    std::erase_if(dump_.processes, [](pid_t pid) { return !read_process(pid); });
    if (dump_.processes.empty()) return;
    std::this_thread::sleep_for(1ms);
  }
}

// A process that the program has started may still use a device after the program itself has ended.
bool Keeper::finished() {
  if (!ended_) return false;
  // ckpt-dump may still remove older images (--keep); a batch system kills what is left of a job.
  if (outcome_.image) return !dumps_.any();
  if (outcome_.error) return true;
  if (dump_has_orphans()) return false;
  // An image that is only being written still gets its number, and its mark, before the program
  // counts as finished. Otherwise it would be restored as if it had not.
  if (dumps_.any_of_program()) return false;
  if (!proxies_.any()) return true;
  if (!processes_.any()) proxies_.release_parked();
  return false;
}

// Its root has ended, but its descendants have not. They still need the keeper, which continues
// them if the dump fails: it may have stopped them, or be about to release them.
bool Keeper::dump_has_orphans() const { return dump_.open > 0 && processes_.any(); }

void Keeper::turn() {
  std::vector<pollfd> fds{
      {signals_.fd(), POLLIN, 0}, {posted_.fd(), POLLIN, 0}, {requests_.listener_fd(), POLLIN, 0}};
  for (const Watch &w : watches_) fds.push_back({w.fd, POLLIN, 0});
  size_t at = 3, watches = watches_.size(), clients = at + watches;
  requests_.add_to(fds);
  if (::poll(fds.data(), fds.size(), -1) < 0) return;
  // New watches are added at the end, behind those that were polled.
  auto w = watches_.begin();
  for (size_t i = 0; i < watches; i++, at++)
    w = fds[at].revents && !w->call() ? watches_.erase(w) : ++w;
  requests_.serve(std::span(fds).subspan(clients));
  if (fds[2].revents) requests_.turn_listener();
  if (fds[1].revents) posted_.run();
  if (fds[0].revents) handle_signals();
}

void Keeper::handle_signals() {
  while (std::optional<signalfd_siginfo> info = signals_.next()) handle_signal(*info);
}

void Keeper::handle_signal(const signalfd_siginfo &info) {
  int signal = static_cast<int>(info.ssi_signo);
  switch (signal) {
    case SIGCHLD: return reap();
    case SIGPIPE:
    case SIGTTIN:
    case SIGTTOU: return;
    case SIGWINCH:
      if (hooks_.window_changed)
        hooks_.window_changed();
      else if (!from_terminal(info))
        forward(signal);
      return;
    case SIGCONT: {
      if (static_cast<pid_t>(info.ssi_pid) == stop_watcher_) return;  // the program runs already
      // SIGCONT to this process alone is meant for the program.
      Result<Process> p = read_process(program_);
      if (program_ && p && p->state == 'T' && dump_.open == 0) forward(signal);
      return;
    }
    default:
      if (!from_terminal(info) || own_session_ || program_ == 0) forward(signal);
  }
}

void Keeper::forward(int signal) {
  if (!ended_ && hooks_.signal && hooks_.signal(signal)) return;
  if (ends_a_tool(signal) && cancel(signal)) return;
  if (program_ == 0)
    early_signals_.push_back(signal);
  else if (!ended_)
    ::kill(program_, signal);
  else if (ends_a_tool(signal))
    proxies_.kill_all();  // a device that hangs must not keep this process
}

void Keeper::reap() {
  int status;
  while (pid_t pid = ::waitpid(-1, &status, WNOHANG | WUNTRACED)) {
    if (pid < 0) return;
    if (WIFSTOPPED(status)) {
      if (pid == program_) program_stopped(WSTOPSIG(status));
      continue;
    }
    // The child of a stem that was killed is ours too.
    if (pid == program_) program_ended(status);
    proxies_.reaped(pid);
    dumps_.reaped(pid, status);
  }
}

}  // namespace ckpt::tools
