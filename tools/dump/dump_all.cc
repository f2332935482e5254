// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/dump_all.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>

#include <nlohmann/json.hpp>

#include "common/base/json_fields.h"
#include "common/base/json_text.h"
#include "common/base/print.h"
#include "common/base/units.h"
#include "storage/io/partial_folder.h"
#include "tools/device/apis.h"
#include "tools/image/text.h"
#include "tools/json_text.h"
#include "tools/manifest/saved_images.h"
#include "tools/proc/command.h"
#include "tools/proc/process.h"
#include "tools/session/end_mark.h"
#include "tools/session/in_turns.h"
#include "tools/session/programs.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

constexpr size_t kMaxReport = 1u << 20;

struct Job {
  RunningProgram program;
  std::string image = {};
  UniqueFd report = {};
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
    for (RunningProgram &p : running_programs(uid)) jobs_.push_back({std::move(p)});
    dump_in_turns(folder);
    if (options_.remove_older) remove_older(folder);
    print_sum();
    if (int signal = cancel_.signal()) return 128 + signal;
    return failed_ == 0 ? 0 : 1;
  }

 private:
  void dump_in_turns(const std::string &folder) {
    std::vector<uid_t> users;
    for (const Job &job : jobs_) users.push_back(job.program.uid);
    InTurns turns(std::move(users), {.user_time = options_.user_time},
                  {.start = [&](size_t i) { return start(jobs_[i], folder); },
                   .ended = [this](size_t i, int status) { return dump_ended(jobs_[i], status); },
                   .failed = [this](size_t i, const std::string &why) { failed(jobs_[i], why); }});
    OnCancel guard(cancel_, [&] { turns.pass_on(cancel_.signal()); });
    turns.run([this] { return cancel_.signal() != 0; });
  }

  Result<pid_t> start(Job &job, const std::string &folder) const {
    if (job.program.root == 0) return fail("it is still being started or restored");
    job.image = image_name(folder, job.program);
    job.report.reset(::memfd_create("ckpt-dump-report", MFD_CLOEXEC));
    UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
    Spawn spec{.argv = {sibling_tool("ckpt-dump"), std::to_string(job.program.root), "--json", "-o",
                        job.image},
               .in = null.get(),
               .out = job.report.get(),
               .err = null.get(),
               .own_group = true};
    spec.argv.insert(spec.argv.end(), options_.options.begin(), options_.options.end());
    return spawn(spec);
  }

  bool dump_ended(const Job &job, int status) {
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
      dumped(job);
    else
      failed(job, why(job, status));
    return false;
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
  std::vector<Job> jobs_;
  std::vector<std::string> dumped_;
  size_t failed_ = 0;
  json list_ = json::array();
};

}  // namespace

Result<int> dump_all(const DumpAllOptions &options, Cancel &cancel) {
  return DumpAll(options, cancel).run();
}

}  // namespace ckpt::tools
