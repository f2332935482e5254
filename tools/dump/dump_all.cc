// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/dump_all.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <mutex>

#include <nlohmann/json.hpp>

#include "common/base/json_fields.h"
#include "common/base/json_text.h"
#include "common/base/print.h"
#include "common/base/units.h"
#include "storage/io/partial_folder.h"
#include "tools/device/apis.h"
#include "tools/dump/turns.h"
#include "tools/image/text.h"
#include "tools/json_text.h"
#include "tools/manifest/saved_images.h"
#include "tools/proc/command.h"
#include "tools/proc/process.h"
#include "tools/proc/process_handle.h"
#include "tools/session/end_mark.h"
#include "tools/session/programs.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

using Clock = std::chrono::steady_clock;

// For a dump that was cancelled because its user's time was over.
constexpr std::chrono::seconds kUndoTime{30};
constexpr size_t kMaxReport = 1u << 20;

struct Job {
  RunningProgram program;
  size_t number = 0;  // for Turns
  std::string image = {};
  pid_t dump = 0;
  ProcessHandle handle = {};
  UniqueFd report = {};
  std::optional<Clock::time_point> killed_at = {};  // if it has not ended by then
};

// A name from a program's user: no path, and nothing for a shell to interpret.
std::string safe_name(std::string name) {
  for (char &c : name)
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '.') c = '_';
  return name;
}

// With the time, because PIDs come again after a boot.
std::string image_name(const std::string &folder, const RunningProgram &p) {
  std::time_t now = ::time(nullptr);
  std::tm t{};
  ::gmtime_r(&now, &t);
  char when[32];
  std::strftime(when, sizeof when, "%Y%m%dT%H%M%SZ", &t);
  Result<Process> root = read_process(p.root);
  return fmt::format("{}/ckpt-{}-{}-{}-{}.img", folder, safe_name(p.user),
                     safe_name(root ? root->command : "program"), p.root, when);
}

class DumpAll {
 public:
  DumpAll(const DumpAllOptions &options, Cancel &cancel) : options_(options), cancel_(cancel) {}

  Result<int> run() {
    std::error_code ec;
    std::string folder = std::filesystem::canonical(options_.folder, ec).string();
    if (ec || !std::filesystem::is_directory(folder, ec))
      return fail_with_hint(fmt::format("there is no folder {}", options_.folder),
                            "create it: the image of each program is written into it");
    CKPT_TRY(std::optional<uid_t> uid, selected_user(options_.user));
    OnCancel guard(cancel_, [this] { pass_on(cancel_.signal()); });
    dump_in_turns(running_programs(uid), folder);
    if (options_.remove_older) remove_older(folder);
    print_sum();
    if (int signal = cancel_.signal()) return 128 + signal;
    return failed_ == 0 ? 0 : 1;
  }

 private:
  void dump_in_turns(std::vector<RunningProgram> programs, const std::string &folder) {
    std::vector<uid_t> users;
    for (const RunningProgram &p : programs) users.push_back(p.uid);
    Turns turns(std::move(users), {.user_time = options_.user_time});
    turns_ = &turns;
    while (!turns.all_ended() && !(cancel_.signal() && running_.empty())) {
      while (!cancel_.signal()) {
        std::optional<size_t> next = turns.next(Clock::now());
        if (!next) break;
        std::string image = image_name(folder, programs[*next]);
        start({.program = programs[*next], .number = *next, .image = std::move(image)});
      }
      for (const Turns::GivenUp &g : turns.give_up(Clock::now())) give_up(g, programs[g.program]);
      wait_for_one();
    }
  }

  void give_up(const Turns::GivenUp &g, const RunningProgram &program) {
    if (!g.under_way)
      return failed({.program = program}, "the time for the programs of its user is over");
    std::lock_guard lock(mutex_);
    for (Job &job : running_) {
      if (job.number != g.program) continue;
      job.handle.signal(SIGTERM);
      job.killed_at = Clock::now() + kUndoTime;
    }
  }

  void start(Job job) {
    if (job.program.root == 0) return not_started(job, "it is still being started or restored");
    job.report.reset(::memfd_create("ckpt-dump-report", MFD_CLOEXEC));
    UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    Spawn spec{.argv = {sibling_tool("ckpt-dump"), std::to_string(job.program.root), "--json", "-o",
                        job.image},
               .in = null.get(),
               .out = job.report.get(),
               .err = null.get(),
               .own_group = true};
    spec.argv.insert(spec.argv.end(), options_.options.begin(), options_.options.end());
    Result<pid_t> child = spawn(spec);
    if (!child) return not_started(job, child.error().text());
    job.dump = *child;
    // Our child has its PID until we have waited for it.
    if (Result<ProcessHandle> handle = ProcessHandle::open(*child)) job.handle = std::move(*handle);
    std::lock_guard lock(mutex_);
    running_.push_back(std::move(job));
  }

  void not_started(const Job &job, const std::string &why) {
    turns_->ended(job.number);
    failed(job, why);
  }

  // Returns when a dump has ended, or earlier.
  void wait_for_one() {
    if (running_.empty()) return;
    std::vector<pollfd> ends;
    for (const Job &job : running_) ends.push_back({job.handle.descriptor(), POLLIN, 0});
    if (::poll(ends.data(), ends.size(), milliseconds_to_wake()) < 0) return;
    for (const Job &job : running_)
      if (job.killed_at && Clock::now() >= *job.killed_at) job.handle.signal(SIGKILL);
    int status = 0;
    while (pid_t pid = ::waitpid(-1, &status, WNOHANG)) {
      if (pid < 0) return;
      dump_ended(pid, status);
    }
  }

  // Also when a signal may have come.
  int milliseconds_to_wake() const {
    constexpr std::chrono::milliseconds kMost{1000};
    std::optional<Clock::time_point> wake = turns_->wake(Clock::now());
    for (const Job &job : running_)
      if (job.killed_at) wake = std::min(wake.value_or(*job.killed_at), *job.killed_at);
    if (!wake) return static_cast<int>(kMost.count());
    auto left = std::chrono::ceil<std::chrono::milliseconds>(*wake - Clock::now());
    return static_cast<int>(std::clamp(left, std::chrono::milliseconds(0), kMost).count());
  }

  void dump_ended(pid_t pid, int status) {
    std::unique_lock lock(mutex_);
    auto it = std::ranges::find(running_, pid, &Job::dump);
    if (it == running_.end()) return;
    Job job = std::move(*it);
    running_.erase(it);
    lock.unlock();
    turns_->ended(job.number);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
      dumped(job);
    else
      failed(job,
             job.killed_at ? "the time for the programs of its user is over" : why(job, status));
  }

  static json report_of(const Job &job) {
    return parse_json(output_in(job.report.get(), kMaxReport));
  }

  static std::string why(const Job &job, int status) {
    json report = report_of(job);
    if (std::string what = json_string(json_member(report, "error"), "what"); !what.empty())
      return what;
    return WIFEXITED(status) ? fmt::format("exit code {}", WEXITSTATUS(status))
                             : fmt::format("killed by signal {}", WTERMSIG(status));
  }

  void dumped(const Job &job) {
    dumped_.push_back(job.image);
    json report = report_of(job);
    u64 stored = json_value(report, "stored_bytes", u64{0});
    say(fmt::format("dumped   {}  {} ({})", name_of(job), printable(job.image),
                    human_bytes(stored)));
    list_.push_back(describe(job, job.image, {}));
  }

  void failed(const Job &job, const std::string &reason) {
    failed_++;
    say(fmt::format("FAILED   {}  {}", name_of(job), printable_lines(reason)));
    list_.push_back(describe(job, {}, reason));
  }

  static std::string name_of(const Job &job) {
    return fmt::format("{} {} ({})", job.program.root, printable(job.program.user),
                       value_text(job.program.command, 60));
  }

  static json describe(const Job &job, const json &image, const json &error) {
    return {{"pid", job.program.root},
            {"user", job.program.user},
            {"program", job.program.command},
            {"image", image},
            {"error", error}};
  }

  void say(const std::string &line) const {
    if (options_.json || options_.quiet) return;
    print("{}\n", line);
    std::fflush(stdout);  // the next one may take minutes
  }

  void print_sum() const {
    if (options_.json)
      print("{}\n",
            json_text({{"programs", list_}, {"dumped", dumped_.size()}, {"failed", failed_}}));
    else if (!options_.quiet || failed_)
      print("{} dumped, {} failed\n", dumped_.size(), failed_);
  }

  void pass_on(int signal) {
    std::lock_guard lock(mutex_);
    for (const Job &job : running_) ::kill(job.dump, signal);
  }

  // Not what another image needs as its parent.
  void remove_older(const std::string &folder) const {
    Result<std::vector<SavedImage>> images = images_in(folder, nullptr, Thoroughness::Index);
    if (!images) return;
    auto is_new = [&](const SavedImage &i) { return std::ranges::count(dumped_, i.path) > 0; };
    for (const SavedImage &old : *images) {
      bool replaced = std::ranges::any_of(*images, [&](const SavedImage &i) {
        return is_new(i) && i.is_of_program(old) && !i.session_folder.empty();
      });
      std::string name = std::filesystem::path(old.path).filename().string();
      bool needed =
          std::ranges::any_of(*images, [&](const SavedImage &i) { return i.parent == name; });
      if (!replaced || is_new(old) || needed) continue;
      if (storage::remove_published(storage::FileSystem::real(), old.path)) remove_mark(old.path);
    }
  }

  const DumpAllOptions &options_;
  Cancel &cancel_;
  Turns *turns_ = nullptr;
  std::mutex mutex_;  // guards running_ against the thread of cancel_
  std::vector<Job> running_;
  std::vector<std::string> dumped_;
  size_t failed_ = 0;
  json list_ = json::array();
};

}  // namespace

Result<int> dump_all(const DumpAllOptions &options, Cancel &cancel) {
  return DumpAll(options, cancel).run();
}

}  // namespace ckpt::tools
