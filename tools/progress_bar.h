// SPDX-License-Identifier: Apache-2.0
//
// The progress of work that is counted in bytes. A terminal shows a bar that is redrawn ten times a
// second; elsewhere a line is printed for each tenth of the work, at most one a second. Not
// thread-safe.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <utility>

#include "common/base/units.h"

namespace ckpt::tools {

class Progress {
 public:
  using Clock = std::chrono::steady_clock;

  // `what` stands before the figures: "verify". With `quiet` nothing is printed.
  explicit Progress(std::string what, bool quiet = false, int fd = STDERR_FILENO)
      : what_(std::move(what)), quiet_(quiet), fd_(fd), terminal_(::isatty(fd) == 1) {}
  ~Progress() { finish(); }

  // A total of 0 means that it is not known yet. Bar and remaining time are then left out.
  void update(u64 done, u64 total) {
    if (quiet_ || !due(done, total)) return;
    write(terminal_ ? "\r" + bar(done, total) + "\x1b[K" : line(done, total) + "\n");
    drawn_ = true;
  }
  // Erases the bar.
  void finish() {
    if (terminal_ && drawn_) write("\r\x1b[K");
    drawn_ = false;
  }

  std::string line(u64 done, u64 total) const {
    double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
    std::string out = fmt::format("{}: {}", what_, human_bytes(done));
    if (total > 0) out += fmt::format(" of {} ({}%)", human_bytes(total), percent(done, total));
    out += fmt::format(", {}/s", human_bytes(static_cast<u64>(rate)));
    if (total > done && rate > 0)
      out += fmt::format(", {:.0f} s left", static_cast<double>(total - done) / rate);
    return out;
  }

 private:
  static u64 percent(u64 done, u64 total) {
    return static_cast<u64>(100.0 * static_cast<double>(done) / static_cast<double>(total));
  }
  std::string bar(u64 done, u64 total) const {
    constexpr u64 kWidth = 24;
    if (total == 0) return line(done, total);
    u64 filled = std::min(kWidth, percent(done, total) * kWidth / 100);
    return "[" + std::string(filled, '#') + std::string(kWidth - filled, ' ') + "] " +
           line(done, total);
  }
  bool due(u64 done, u64 total) {
    Clock::time_point now = Clock::now();
    if (now < next_) return false;
    u64 tenth = total > 0 ? percent(done, total) / 10 : 0;
    if (!terminal_ && tenth <= tenth_) return false;
    tenth_ = tenth;
    next_ = now + (terminal_ ? std::chrono::milliseconds(100) : std::chrono::milliseconds(1000));
    return true;
  }
  void write(const std::string &text) const {
    ssize_t ignored = ::write(fd_, text.data(), text.size());
    (void)ignored;
  }

  const std::string what_;
  const bool quiet_;
  const int fd_;
  const bool terminal_;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point next_ = start_ + std::chrono::milliseconds(100);
  u64 tenth_ = 0;
  bool drawn_ = false;
};

}  // namespace ckpt::tools
