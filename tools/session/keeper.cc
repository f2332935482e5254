// SPDX-License-Identifier: Apache-2.0
#include "tools/session/keeper.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "tools/session/end_mark.h"
#include "tools/session/leftovers.h"
#include "tools/session/process_tree.h"
#include "tools/session/stop_watcher.h"

namespace ckpt::tools {
namespace {

// Processes of one program, which may all come at once.
constexpr Newcomers::Limits kNewcomers{
    .waiting = 256, .waiting_of_source = 256, .greeting = 64, .greeting_of_source = 64};

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
  CKPT_TRY(k->listener_, Listener::create("the session", kNewcomers));
  CKPT_TRY(UniqueFd socket, listen_unix(k->socket_path_));
  CKPT_CHECK(k->listener_->listen(std::move(socket)));
  k->wake_.reset(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!k->wake_) return fail_errno("cannot create an eventfd");
  std::string foreign;
  for (pid_t child : ProcessTable::read().children(::getpid())) {
    foreign += fmt::format("{}\n", child);
    k->foreign_.insert(child);
  }
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
    if (renewed_) renewed_();
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
}

// Job control has stopped the program. Stops the keeper too, so that its parent sees the job stop.
// During a dump it is CRIU that stops the program, which the parent must not see.
void Keeper::program_stopped(int signal) {
  if (dumps_open_ > 0) return;
  log::debug("the program was stopped by signal {}", signal);
  // Another process may have continued the program already.
  if (Result<Process> p = read_process(program_); !p || p->state != 'T') return;
  if (before_stop_) before_stop_();
  StopWatcher watcher(program_);
  stop_watcher_ = watcher.pid();
  if (watcher.started()) ::kill(::getpid(), SIGSTOP);
  if (after_stop_) after_stop_();
}

void Keeper::program_ended(int wait_status) {
  ended_ = true;
  outcome_.wait_status = wait_status;
  if (dumped_image_ && WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL)
    outcome_.image = dumped_image_;
  if (WIFEXITED(wait_status) && !last_image_.empty()) mark_ended(last_image_);
}

void Keeper::program_failed(Error why) {
  ended_ = true;
  outcome_.error = std::move(why);
}

void Keeper::watch(int fd, std::function<bool()> f) { watches_.push_back({fd, std::move(f)}); }

void Keeper::post(std::function<void()> f) {
  std::lock_guard lock(posted_mutex_);
  posted_.push_back(std::move(f));
  u64 one = 1;
  if (::write(wake_.get(), &one, sizeof one) <
      0) { /* the counter is full, so the loop wakes anyway */
  }
}

void Keeper::on_job_stop(std::function<void()> before, std::function<void()> after) {
  before_stop_ = std::move(before);
  after_stop_ = std::move(after);
}

Keeper::Outcome Keeper::run() {
  while (!finished()) turn();
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
    std::erase_if(dumped_processes_, [](pid_t pid) { return !read_process(pid); });
    if (dumped_processes_.empty()) return;
    std::this_thread::sleep_for(1ms);
  }
}

// A process that the program has started may still use a device after the program itself has ended.
bool Keeper::finished() {
  if (!ended_) return false;
  // ckpt-dump may still remove older images (--keep); a batch system kills what is left of a job.
  if (outcome_.image) return dump_requests_.empty();
  if (outcome_.error) return true;
  if (dump_has_orphans()) return false;
  if (!proxies_.any()) return true;
  if (!program_lives()) proxies_.release_parked();
  return false;
}

// Orphans of the program are children of the keeper, or of the stem of ckpt-helper.
std::vector<pid_t> Keeper::children_of_program(const ProcessTable &table) const {
  std::vector<pid_t> all = table.children(::getpid());
  std::erase_if(all, [this](pid_t p) { return foreign_.contains(p) || proxies_.has(p); });
  if (helper_stem_)
    for (pid_t child : table.children(helper_stem_)) all.push_back(child);
  return all;
}

// Below the keeper there are also its stem, with the program as its child, and dumps.
std::vector<Process> Keeper::processes_of_program() const {
  ProcessTable table = ProcessTable::read();
  std::vector<Process> all;
  auto add_tree = [&](pid_t root) {
    for (const Process &p : table.tree(root))
      if (p.state != 'Z' && p.state != 'X') all.push_back(p);
  };
  for (pid_t child : children_of_program(table))
    if (!is_own_helper(child))
      add_tree(child);
    else if (runs_stems(child))
      for (pid_t below : table.children(child)) add_tree(below);
  return all;
}

bool Keeper::program_lives() const {
  return std::ranges::any_of(processes_of_program(),
                             [](const Process &p) { return !is_own_helper(p.pid); });
}

// Its root has ended, but its descendants have not. They still need the keeper, which continues
// them if the dump fails: it may have stopped them, or be about to release them.
bool Keeper::dump_has_orphans() const { return dumps_open_ > 0 && program_lives(); }

// A PID namespace ends with its first process.
void Keeper::kill_program() {
  for (pid_t child : children_of_program(ProcessTable::read())) kill_tree(child);
  if (helper_stem_) ::kill(helper_stem_, SIGKILL);
}

void Keeper::turn() {
  std::vector<pollfd> fds{
      {signals_.fd(), POLLIN, 0}, {wake_.get(), POLLIN, 0}, {listener_->fd(), POLLIN, 0}};
  for (const Watch &w : watches_) fds.push_back({w.fd, POLLIN, 0});
  for (const Client &c : clients_) fds.push_back({c.fd.get(), POLLIN, 0});
  if (::poll(fds.data(), fds.size(), -1) < 0) return;
  size_t at = 3;
  // New watches and clients are added at the end, behind those that were polled.
  size_t watches = watches_.size(), clients = clients_.size();
  auto w = watches_.begin();
  for (size_t i = 0; i < watches; i++, at++)
    w = fds[at].revents && !w->call() ? watches_.erase(w) : ++w;
  auto c = clients_.begin();
  for (size_t i = 0; i < clients; i++, at++)
    c = fds[at].revents && !serve(*c) ? clients_.erase(c) : ++c;
  if (fds[2].revents) turn_listener();
  if (fds[1].revents) run_posted();
  if (fds[0].revents) handle_signals();
}

void Keeper::run_posted() {
  u64 count;
  if (::read(wake_.get(), &count, sizeof count) < 0) return;
  std::vector<std::function<void()>> now;
  {
    std::lock_guard lock(posted_mutex_);
    now.swap(posted_);
  }
  for (auto &f : now) f();
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
      if (window_changed_)
        window_changed_();
      else if (!from_terminal(info))
        forward(signal);
      return;
    case SIGCONT: {
      if (static_cast<pid_t>(info.ssi_pid) == stop_watcher_) return;  // the program runs already
      // SIGCONT to this process alone is meant for the program.
      Result<Process> p = read_process(program_);
      if (program_ && p && p->state == 'T' && dumps_open_ == 0) forward(signal);
      return;
    }
    default:
      if (!from_terminal(info) || own_session_ || program_ == 0) forward(signal);
  }
}

void Keeper::forward(int signal) {
  if (!ended_ && signal_ && signal_(signal)) return;
  if (restoring() && ends_a_tool(signal))
    cancel_(signal);
  else if (program_ == 0)
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
    dump_ended(pid, status);
  }
}

}  // namespace ckpt::tools
