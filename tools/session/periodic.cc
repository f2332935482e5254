// SPDX-License-Identifier: Apache-2.0
#include "tools/session/periodic.h"

#include <sys/stat.h>
#include <sys/timerfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "common/base/json_fields.h"
#include "common/base/log.h"
#include "common/base/printable.h"
#include "tools/proc/process.h"
#include "tools/session/job_member.h"

namespace ckpt::tools {
namespace {

namespace fs = std::filesystem;

// The cost of an image until the first one has been measured.
constexpr Seconds kAssumedCost{1};
constexpr Seconds kMinInterval{1};

double unit_of(char letter) {
  switch (letter) {
    case 's': return 1;
    case 'm': return 60;
    case 'h': return 3600;
    case 'd': return 86400;
    default: return 0;
  }
}

}  // namespace

Option add_periodic_options(CommandLine &line, PeriodicOptions &o) {
  Option every =
      line.option("--every=TIME", o.every,
                  "write an image every 90s, 10m, 1h30m, …; auto: at the best interval for --mtbf");
  line.option("--mtbf=TIME", o.mtbf, "with --every auto: mean time between failures");
  line.option("--keep=N", o.keep, "with --every: how many images to keep").range(1, 1000);
  line.option("--image-dir=FOLDER", o.folder, "with --every: the folder for the images")
      .default_is("the current one");
  line.flag("--with-files", o.with_files,
            "every image carries the libraries and other files that the program only reads "
            "(ckpt-dump)");
  return every;
}

Result<Seconds> parse_duration(const std::string &text) {
  double all = 0;
  const char *at = text.c_str();
  while (*at) {
    char *end = nullptr;
    double n = std::strtod(at, &end);
    double unit = *end ? unit_of(*end) : at == text.c_str() ? 1 : 0;
    if (end == at || unit == 0 || !std::isfinite(n) || n < 0) break;
    all += n * unit;
    at = *end ? end + 1 : end;
  }
  if (*at || all <= 0)
    return fail_with_hint(fmt::format("\"{}\" is not a duration", text),
                          "write it like 90s, 10m, 1h30m or 2d");
  return Seconds(all);
}

Seconds best_interval(Seconds cost, Seconds mtbf) {
  double d = cost.count(), m = mtbf.count();
  if (d >= 2 * m) return mtbf;
  double half = d / (2 * m);
  return Seconds(std::sqrt(2 * d * m) * (1 + std::sqrt(half) / 3 + half / 9) - d);
}

Result<std::unique_ptr<Periodic>> Periodic::start(Keeper &keeper, const PeriodicOptions &options,
                                                  Series *series) {
  if (options.with_files) keeper.carry_files();
  if (options.every.empty()) return nullptr;
  std::unique_ptr<Periodic> p(new Periodic(keeper, options, series));
  CKPT_TRY(p->mtbf_, parse_duration(options.mtbf));
  p->interval_ = best_interval(kAssumedCost, p->mtbf_);
  if (options.every != "auto") {
    CKPT_TRY(p->interval_, parse_duration(options.every));
  }
  std::error_code ec;
  p->options_.folder =
      series ? series->folder() : fs::absolute(options.folder, ec).lexically_normal().string();
  if (!fs::is_directory(p->options_.folder, ec))
    return fail_with_hint(fmt::format("there is no folder {}", p->options_.folder),
                          "create it, or name another one with --image-dir");
  p->timer_.reset(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!p->timer_) return fail_errno("cannot create a timer");
  keeper.watch(p->timer_.get(), [self = p.get()] {
    u64 times;
    if (::read(self->timer_.get(), &times, sizeof times) == sizeof times) self->due();
    return true;
  });
  p->arm();
  return p;
}

void Periodic::arm() {
  double s = std::max(interval_, kMinInterval).count();
  itimerspec t{};
  t.it_value.tv_sec = static_cast<time_t>(s);
  t.it_value.tv_nsec = static_cast<long>((s - std::floor(s)) * 1e9);
  ::timerfd_settime(timer_.get(), 0, &t, nullptr);
}

// Leaves the images of earlier sessions alone.
std::string Periodic::next_name() const {
  if (series_) return series_->next();
  std::string program = name_part(executable_name(keeper_.program()));
  for (unsigned n = number_ + 1;; n++) {
    std::string path =
        fmt::format("{}/ckpt-{}-{}-{:04}.img", options_.folder, program, keeper_.program(), n);
    std::error_code ec;
    if (!fs::exists(path, ec)) return path;
  }
}

void Periodic::due() {
  if (!keeper_.accepts_dumps() || another_was_faster()) return arm();
  Result<> started = options_.job.empty() ? begin() : begin_of_job();
  if (started) return;
  log::warn("cannot start ckpt-dump; next attempt in {:.0f} s: {}", interval_.count(),
            started.error().what);
  arm();
}

Result<> Periodic::begin() {
  std::string image = next_name();
  std::vector<std::string> arguments{"--leave-running", "-o", image};
  std::string parent = series_ ? series_->last() : last_image_;
  if (can_be_parent(parent))
    arguments.insert(arguments.end(),
                     {"--parent", parent, "--keep", std::to_string(options_.keep)});
  return keeper_.start_dump(arguments, options_.folder,
                            [this, image](int status, const nlohmann::json &report) {
                              if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                                last_image_ = image;
                              ended(status, report);
                            });
}

Result<> Periodic::begin_of_job() {
  std::vector<std::string> arguments{"--job", options_.job, "--leave-running", "--keep",
                                     std::to_string(options_.keep)};
  return keeper_.start_job_dump(arguments, options_.job, [this](int status, nlohmann::json report) {
    if (WIFEXITED(status) && WEXITSTATUS(status) == kJobIsBusy) return arm();
    last_image_ = json_string(report, "folder");
    // The job is paused for as long as the program with the longest pause.
    double pause = 0;
    for (const auto &member : json_list(report, "members"))
      pause = std::max(pause, json_value(member, "pause_seconds", 0.0));
    if (report.is_object()) report["pause_seconds"] = pause;
    ended(status, report);
  });
}

// Several programs of a job may have been started with --every.
bool Periodic::another_was_faster() const {
  if (options_.job.empty()) return false;
  Result<JobFolder> folder = JobFolder::open(options_.job);
  std::vector<unsigned> complete = folder ? folder->complete() : std::vector<unsigned>{};
  struct stat st {};
  if (complete.empty() || ::stat(folder->decision(complete.front()).c_str(), &st) != 0)
    return false;
  return Seconds(static_cast<double>(::time(nullptr) - st.st_mtime)) < interval_ / 2;
}

void Periodic::ended(int wait_status, const nlohmann::json &report) {
  if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0) {
    number_++;
    if (series_) series_->set_last(last_image_);
    warnings_.say(report);
    last_warning_.clear();
    if (when_measured_) when_measured_(json_value(report, "seconds", 0.0));
    if (options_.every == "auto")
      interval_ = best_interval(Seconds(json_value(report, "pause_seconds", 1.0)), mtbf_);
    log::info("{} is complete; next image in {:.0f} s", last_image_, interval_.count());
  } else if (std::string what = dump_error(report).what;
             WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == kCompleteButLost) {
    log::warn("{}", what);
  } else if (what != last_warning_ && keeper_.program_lives()) {
    log::warn("no image was written, and the program keeps running; next attempt in {:.0f} s: {}",
              interval_.count(), what);
    last_warning_ = what;
  }
  arm();
}

}  // namespace ckpt::tools
