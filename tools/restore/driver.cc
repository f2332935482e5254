// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/driver.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "common/base/log.h"
#include "tools/agent/transfer.h"
#include "tools/criu/streamer.h"
#include "tools/proc/process.h"
#include "tools/restore/checks.h"
#include "tools/session/tree.h"

namespace ckpt::tools {
namespace {

using namespace std::chrono_literals;

constexpr const char *kLog = "restore.log";
constexpr auto kAgentReturnsWithin = 60s;
constexpr int kLeastGivenFd = 20;  // above what CRIU uses by itself
constexpr pid_t kPidGap = 50;      // for CRIU's own helpers, above the image's highest PID

// CRIU's words for a process and for a thread (-17 is EEXIST). The kernel frees a thread's number a
// moment after its process is gone from /proc.
bool says_pid_was_taken(const std::string &error) {
  return error.find("Can't fork for") != std::string::npos ||
         error.find("Unable to create a thread: -17") != std::string::npos;
}

}  // namespace

RestoreDriver::RestoreDriver(Keeper &keeper, const RestoreOptions &o,
                             const storage::ImageReader &image, const Plan &plan, Phases &phases,
                             Running running)
    : keeper_(keeper),
      options_(o),
      image_(image),
      manifest_(plan.manifest),
      maps_(plan.maps),
      criu_(plan.criu),
      phases_(phases),
      running_(std::move(running)) {
  keeper_.on_restored([this](UniqueFd fd, u32 agent) {
    std::lock_guard lock(mutex_);
    arrived_[agent] = std::move(fd);
    changed_.notify_all();
  });
  keeper_.on_window_change([this] {
    if (streams_) streams_->window_changed();
  });
  keeper_.on_job_stop(
      [this] {
        if (streams_) streams_->before_stop();
      },
      [this] {
        if (streams_) streams_->after_stop();
      });
  thread_ = std::thread([this] { run(); });
}

RestoreDriver::~RestoreDriver() { thread_.join(); }

void RestoreDriver::run() {
  Result<> r = restore();
  if (r) return;
  // In this order: the keeper must not take the end of a half restored copy for the program's own.
  keeper_.post([this, e = r.error()] { keeper_.program_failed(e); });
  if (root_) kill_tree(root_);
}

Result<> RestoreDriver::restore() {
  // Processes, memory, files: CRIU, where the PIDs are free.
  phases_.begin("criu");
  CKPT_CHECK(host_side());
  hand_to_keeper();
  // Devices: each agent hears that it is a copy, connects, rebuilds, loads, and opens its gate.
  phases_.begin("devices");
  CKPT_CHECK(agents());
  phases_.end();
  keeper_.post([this] { keeper_.program_is_whole(); });
  CKPT_CHECK(write_report());
  running_(root_);
  return {};
}

Result<> RestoreDriver::host_side() {
  alias_ = std::make_unique<SessionAlias>(manifest_.session_folder, keeper_.folder());
  if (!pids_taken(manifest_)) {
    Result<> done = try_criu(false);
    // A PID may have been taken since: nothing of the copy has run, so try again where all are
    // free.
    if (done || !pid_was_taken_) return done;
  }
  return try_criu(true);
}

Result<> RestoreDriver::try_criu(bool new_namespace) {
  new_namespace_ = new_namespace;
  CKPT_TRY(streams_, RestoredStreams::plan(manifest_, image_,
                                           {.detach = options_.detach,
                                            .new_namespace = new_namespace,
                                            .output_file = options_.output_file}));
  CKPT_CHECK(make_word_pipes());
  CKPT_TRY(SessionFolder folder, SessionFolder::create("restore-"));
  Result<> done = start_and_wait(folder.path(), new_namespace);
  if (done) return {};
  Error e = done.error();
  std::string kept = fmt::format("{}/ckpt-restore-{}.log", runtime_folder(), ::getpid());
  std::error_code ec;
  std::filesystem::copy_file(folder.file(kLog), kept,
                             std::filesystem::copy_options::overwrite_existing, ec);
  if (!ec) e.what += fmt::format("; its log is {}", kept);
  return Failure(std::move(e));
}

Result<> RestoreDriver::make_word_pipes() {
  words_.clear();
  for (size_t i = 0; i < manifest_.outcome_pipes.size(); i++) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) < 0) return fail_errno("cannot make a pipe");
    UniqueFd read_end(ends[0]), write_end(ends[1]);
    words_.push_back(
        {UniqueFd(::fcntl(read_end.get(), F_DUPFD_CLOEXEC, kLeastGivenFd)), std::move(write_end)});
  }
  return {};
}

StemOptions RestoreDriver::stem_options(const std::string &folder, bool new_namespace) const {
  // CRIU lets one thread go after the other, and fails where the program ends before the last: so
  // all of them stop first, and the stem continues them.
  StemOptions s{
      .criu = {criu_.path, "restore", "--no-default-config", "--stream", "-d", "-S",
               "--leave-stopped", "--shell-job", "--file-locks", "-D", folder, "-o", kLog, "-v4"},
      .folder = folder,
      .terminal = streams_->terminal(),
      .own_terminal = streams_->own_terminal(),
      .new_namespace = new_namespace,
      .leave_stopped = manifest_.stopped()};
  auto inherit = [&s](int fd, u64 inode) {
    s.criu.insert(s.criu.end(), {"--inherit-fd", fmt::format("fd[{}]:pipe:[{}]", fd, inode)});
    s.inherited.push_back(fd);
  };
  for (auto [fd, inode] : streams_->pipes()) inherit(fd, inode);
  for (size_t i = 0; i < words_.size(); i++)
    inherit(words_[i].read_end.get(), manifest_.outcome_pipes[i]);
  std::vector<pid_t> pids = manifest_.pids();
  s.last_pid = pids.back() + kPidGap;
  if (new_namespace && !alias_->linked() && manifest_.session_folder != keeper_.folder()) {
    s.bind_from = keeper_.folder();
    s.bind_to = manifest_.session_folder;
  }
  return s;
}

Result<> RestoreDriver::start_and_wait(const std::string &folder, bool new_namespace) {
  Serve serve(image_);
  CKPT_CHECK(serve.start(folder));
  CKPT_TRY(stem_, start_stem(stem_options(folder, new_namespace)));
  Result<StemEvent> ended = next_event(stem_.events.get());
  Result<> served = serve.finish();
  if (!ended) return fail("the restore could not be started");
  if (ended->value != 0) {
    // What the image could not give is the cause; what CRIU says then is the consequence.
    if (!served) return served;
    Error e = criu_error(folder + "/" + kLog, "restore", ended->value);
    pid_was_taken_ = says_pid_was_taken(e.what);
    return Failure(std::move(e));
  }
  CKPT_TRY(StemEvent started, next_event(stem_.events.get()));
  CKPT_CHECK(find_root(started.value));
  return acknowledge(stem_.events.get());
}

Result<> RestoreDriver::find_root(pid_t ns_root) {
  ProcessTable table = ProcessTable::read();
  for (pid_t child : table.children(stem_.pid))
    if (table.find(child)->ns_pid() == ns_root) root_ = child;
  return root_ ? Result<>{} : fail("the restored program cannot be found");
}

void RestoreDriver::hand_to_keeper() {
  streams_->handed_over();
  for (WordPipe &w : words_) w.read_end.reset();
  bool own_session = new_namespace_ || streams_->own_terminal() || session_is_outside();
  keeper_.post([this, own_session] {
    keeper_.program_started(root_, own_session, false);
    keeper_.watch(stem_.events.get(), [this] { return stem_event(); });
  });
}

// In the keeper's loop.
bool RestoreDriver::stem_event() {
  Result<StemEvent> e = next_event(stem_.events.get());
  if (e && e->kind == StemEvent::Stopped) return keeper_.program_stopped(e->value), true;
  program_is_gone();
  // The stem was killed, and our program with it (or it is nobody's child any more).
  keeper_.program_ended(e ? e->value : SIGKILL);
  return false;
}

void RestoreDriver::program_is_gone() {
  std::lock_guard lock(mutex_);
  gone_ = true;
  changed_.notify_all();
}

// A restored program runs at once, its devices come a moment later. A process that ends in between,
// having called no device any more, has ended and not failed.
Result<> RestoreDriver::agents() {
  std::vector<Returned> all(words_.size());
  std::vector<Result<>> results(words_.size());
  std::vector<std::thread> threads;
  for (u32 i = 0; i < all.size(); i++)
    threads.emplace_back([&, i] { results[i] = bring_back(i, all[i]); });
  for (std::thread &t : threads) t.join();
  for (u32 i = 0; i < all.size(); i++) {
    if (results[i] && all[i].client) results[i] = all[i].client->resume();
    if (!results[i] && !process_ended(manifest_.agent_pids[i]))
      return Failure(
          std::move(results[i].error()).in("the program's devices could not be restored"));
  }
  return {};
}

Result<> RestoreDriver::bring_back(u32 number, Returned &agent) {
  CKPT_CHECK(say_word(words_[number].write_end.get(), protocol::Outcome::Restored, number,
                      keeper_.socket_path()));
  CKPT_TRY(UniqueFd fd, restored_agent(number));
  CKPT_TRY(Staging staging, Staging::create());
  agent.staging.emplace(std::move(staging));
  agent.client.emplace(std::move(fd));
  CKPT_TRY(AgentClient::Welcome welcome, agent.client->hello("ckpt-restore"));
  (void)welcome;
  if (auto maps = maps_.find(number); maps != maps_.end())
    for (auto &[api, map] : maps->second) CKPT_CHECK(agent.client->use_devices(api, map));
  CKPT_CHECK(agent.client->attach(keeper_.socket_path()));
  return load_agent(*agent.client, *agent.staging, image_, number);
}

bool RestoreDriver::process_lives(pid_t ns_pid) const {
  for (const Process &p : ProcessTable::read().tree(stem_.pid))
    if (p.ns_pid() == ns_pid && p.state != 'Z' && p.state != 'X') return true;
  return false;
}

// Gives a process that was seen to fail a moment to be seen to end.
bool RestoreDriver::process_ended(pid_t ns_pid) {
  for (auto end = std::chrono::steady_clock::now() + 2s; std::chrono::steady_clock::now() < end;) {
    if (!process_lives(ns_pid)) return true;
    std::unique_lock lock(mutex_);
    if (changed_.wait_for(lock, 20ms, [this] { return gone_; })) return true;
  }
  return false;
}

Result<UniqueFd> RestoreDriver::restored_agent(u32 number) {
  std::unique_lock lock(mutex_);
  auto deadline = std::chrono::steady_clock::now() + kAgentReturnsWithin;
  bool here = false;
  while (!gone_ && !(here = arrived_.contains(number))) {
    if (std::chrono::steady_clock::now() > deadline) break;
    changed_.wait_for(lock, 200ms);
    if (gone_ || arrived_.contains(number)) continue;
    lock.unlock();
    bool lives = process_lives(manifest_.agent_pids[number]);
    lock.lock();
    if (!lives) return fail("the process ended before its devices were restored");
  }
  if (gone_) return fail("the program ended before its devices were restored");
  if (!here) return fail("the program's agent {} does not come back", number);
  return std::move(arrived_[number]);
}

Result<> RestoreDriver::write_report() const {
  if (options_.json_report.empty()) return {};
  nlohmann::json phases = phases_.json();
  double seconds = phases.empty() ? 0
                                  : phases.back()["start"].get<double>() +
                                        phases.back()["seconds"].get<double>();
  nlohmann::json j{{"image", options_.image},
                   {"pid", root_},
                   {"processes", manifest_.processes.size()},
                   {"bytes", image_.stats().raw_bytes},
                   {"own_pid_namespace", new_namespace_},
                   {"seconds", seconds},
                   {"phases", phases}};
  std::ofstream out(options_.json_report);
  out << j.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) << "\n" << std::flush;
  return out ? Result<>{} : fail_errno("cannot write {}", options_.json_report);
}

}  // namespace ckpt::tools
