// SPDX-License-Identifier: Apache-2.0
#include "tools/session/periodic.h"

#include <sys/timerfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>

#include <CLI/CLI.hpp>

#include "common/base/log.h"
#include "tools/proc/process.h"

namespace ckpt::tools {
namespace {

namespace fs = std::filesystem;

// Until the first image says what one costs.
constexpr Seconds kAssumedCost{1};
constexpr Seconds kLeastInterval{1};

double unit_of(char letter) {
  switch (letter) {
    case 's': return 1;
    case 'm': return 60;
    case 'h': return 3600;
    case 'd': return 86400;
    default: return 0;
  }
}

std::string error_of(const nlohmann::json &report) {
  nlohmann::json e =
      report.is_object() ? report.value("error", nlohmann::json()) : nlohmann::json();
  return e.is_object() ? e.value("what", "ckpt-dump failed") : "ckpt-dump failed";
}

}  // namespace

void add_periodic_options(CLI::App &app, PeriodicOptions &o) {
  app.add_option("--every", o.every,
                 "write an image every 90s, 10m, 1h30m …; auto: as often as is best for --mtbf");
  app.add_option("--mtbf", o.mtbf, "with --every auto: mean time between failures (default 24h)");
  app.add_option("--keep", o.keep, "with --every: how many images to keep (default 2)")
      ->check(CLI::Range(1, 1000));
  app.add_option("--image-dir", o.folder, "with --every: where the images go (default: here)");
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
    return fail_with_hint(fmt::format("\"{}\" is no duration", text), "90s, 10m, 1h30m or 2d is");
  return Seconds(all);
}

Seconds best_interval(Seconds cost, Seconds mtbf) {
  double d = cost.count(), m = mtbf.count();
  if (d >= 2 * m) return mtbf;
  double half = d / (2 * m);
  return Seconds(std::sqrt(2 * d * m) * (1 + std::sqrt(half) / 3 + half / 9) - d);
}

Result<std::unique_ptr<Periodic>> Periodic::start(Keeper &keeper, const PeriodicOptions &options) {
  if (options.every.empty()) return nullptr;
  std::unique_ptr<Periodic> p(new Periodic(keeper, options));
  CKPT_TRY(p->mtbf_, parse_duration(options.mtbf));
  p->interval_ = best_interval(kAssumedCost, p->mtbf_);
  if (options.every != "auto") {
    CKPT_TRY(p->interval_, parse_duration(options.every));
  }
  std::error_code ec;
  p->options_.folder = fs::absolute(options.folder, ec).lexically_normal().string();
  if (!fs::is_directory(p->options_.folder, ec))
    return fail("there is no folder {} for the images", p->options_.folder);
  p->timer_.reset(::timerfd_create(CLOCK_BOOTTIME, TFD_CLOEXEC | TFD_NONBLOCK));
  if (!p->timer_) return fail_errno("cannot make a timer");
  keeper.watch(p->timer_.get(), [self = p.get()] {
    u64 times;
    if (::read(self->timer_.get(), &times, sizeof times) == sizeof times) self->due();
    return true;
  });
  p->arm();
  return p;
}

void Periodic::arm() {
  double s = std::max(interval_, kLeastInterval).count();
  itimerspec t{};
  t.it_value.tv_sec = static_cast<time_t>(s);
  t.it_value.tv_nsec = static_cast<long>((s - std::floor(s)) * 1e9);
  ::timerfd_settime(timer_.get(), 0, &t, nullptr);
}

// Ones of an earlier session stay what they are.
std::string Periodic::next_name() const {
  std::string program = executable_name(keeper_.program());
  for (unsigned n = number_ + 1;; n++) {
    std::string path =
        fmt::format("{}/ckpt-{}-{}-{:04}.img", options_.folder, program, keeper_.program(), n);
    std::error_code ec;
    if (!fs::exists(path, ec)) return path;
  }
}

void Periodic::due() {
  if (keeper_.program() == 0) return arm();
  std::string image = next_name();
  std::vector<std::string> arguments{"--leave-running", "-o", image};
  if (std::error_code none;
      fs::exists(last_image_, none))  // somebody may have taken it away: then a whole one
    arguments.insert(arguments.end(),
                     {"--parent", last_image_, "--keep", std::to_string(options_.keep)});
  Result<> started = keeper_.start_dump(arguments, options_.folder,
                                        [this, image](int status, const nlohmann::json &report) {
                                          if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
                                            last_image_ = image;
                                          ended(status, report);
                                        });
  if (started) return;
  log::warn("no image: {}", started.error().what);
  arm();
}

void Periodic::ended(int wait_status, const nlohmann::json &report) {
  if (WIFEXITED(wait_status) && WEXITSTATUS(wait_status) == 0) {
    number_++;
    complaint_.clear();
    if (options_.every == "auto")
      interval_ = best_interval(Seconds(report.value("pause_seconds", 1.0)), mtbf_);
    log::info("{}: complete; the next in {:.0f} s", last_image_, interval_.count());
  } else if (std::string what = error_of(report); what != complaint_) {
    log::warn("no image, and the program runs on; another try in {:.0f} s: {}", interval_.count(),
              what);
    complaint_ = what;
  }
  arm();
}

}  // namespace ckpt::tools
