// SPDX-License-Identifier: Apache-2.0
//
// The progress of work that is counted in bytes: a bar on a terminal, redrawn ten times a second.
// If standard error is not a terminal, nothing is written: cron would mail it, and a log would keep
// it. Not thread-safe.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <string>
#include <utility>

#include "common/base/clock.h"
#include "common/base/units.h"

namespace ckpt::tools {

// Whether the total is known, or an estimate that says nothing about the time that is left.
enum class Total { Exact, Estimate };

class Progress {
 public:
  // `what` is printed before the figures: "verify". With `quiet` nothing is printed.
  explicit Progress(std::string what, bool quiet = false, Total total = Total::Exact,
                    int fd = STDERR_FILENO)
      : what_(std::move(what)), shown_(!quiet && ::isatty(fd) == 1), total_(total), fd_(fd) {}
  ~Progress() { finish(); }

  // A total of 0 means that it is not known yet. The bar is then left out.
  void update(u64 done, u64 total) {
    Clock::time_point now = Clock::now();
    if (!shown_ || now < next_) return;
    next_ = now + kRedrawInterval;
    write("\r" + bar(done, total) + line(done, total, now - start_) + "\x1b[K");
    drawn_ = true;
  }
  // Erases the bar.
  void finish() {
    if (drawn_) write("\r\x1b[K");
    drawn_ = false;
  }

  // The figures, `elapsed` after the start.
  std::string line(u64 done, u64 total, std::chrono::duration<double> elapsed) const {
    double seconds = elapsed.count();
    double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
    std::string out = fmt::format("{}: {}", what_, human_bytes(done));
    if (total > 0) out += fmt::format(" of {} ({}%)", human_bytes(total), percent(done, total));
    out += fmt::format(", {}/s", human_bytes(static_cast<u64>(rate)));
    if (total_ == Total::Exact && total > done && rate > 0 && seconds >= kSecondsForRate)
      out += ", about " + human_estimate(static_cast<double>(total - done) / rate) + " left";
    return out;
  }

 private:
  static constexpr std::chrono::milliseconds kRedrawInterval{100};
  // At first, files come from caches and threads are still starting, so a rate over less time is no
  // basis for an estimate.
  static constexpr double kSecondsForRate = 3;

  static u64 percent(u64 done, u64 total) {
    return static_cast<u64>(100.0 * static_cast<double>(done) / static_cast<double>(total));
  }
  static std::string bar(u64 done, u64 total) {
    constexpr u64 kWidth = 24;
    if (total == 0) return "";
    u64 filled = std::min(kWidth, percent(done, total) * kWidth / 100);
    return "[" + std::string(filled, '#') + std::string(kWidth - filled, ' ') + "] ";
  }
  void write(const std::string &text) const {
    ssize_t ignored = ::write(fd_, text.data(), text.size());
    (void)ignored;
  }

  const std::string what_;
  const bool shown_;
  const Total total_;
  const int fd_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point next_ = start_ + kRedrawInterval;
  bool drawn_ = false;
};

}  // namespace ckpt::tools
