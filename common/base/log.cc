// SPDX-License-Identifier: Apache-2.0
#include "common/base/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>

namespace ckpt::log {
namespace {

const char *g_name = "ckpt";
std::atomic<int> g_least{-1};

Level level_from_environment() {
  const char *s = std::getenv("CKPT_LOG");
  std::string_view v = s ? s : "";
  if (v == "debug") return Level::Debug;
  if (v == "info") return Level::Info;
  if (v == "error") return Level::Error;
  if (v == "off") return Level::Off;
  return Level::Warn;
}

// Opened for every line: a descriptor kept open would be one more thing for CRIU to carry.
int open_target() {
  const char *path = std::getenv("CKPT_LOG_FILE");
  return path ? ::open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0600) : -1;
}

std::string_view prefix(Level level) {
  switch (level) {
    case Level::Debug: return "debug: ";
    case Level::Warn: return "warning: ";
    case Level::Error: return "error: ";
    default: return "";
  }
}

}  // namespace

void set_name(const char *name) { g_name = name; }
void set_level(Level least) { g_least = static_cast<int>(least); }

bool enabled(Level level) {
  int least = g_least.load(std::memory_order_relaxed);
  if (least < 0) g_least = least = static_cast<int>(level_from_environment());
  return static_cast<int>(level) >= least && level != Level::Off;
}

void write(Level level, std::string_view text) {
  std::string line = fmt::format("{}: {}{}\n", g_name, prefix(level), text);
  int saved = errno;
  int fd = open_target();
  if (::write(fd >= 0 ? fd : STDERR_FILENO, line.data(), line.size()) < 0) { /* nowhere to say so */
  }
  if (fd >= 0) ::close(fd);
  errno = saved;
}

void error(const Error &e) {
  if (!enabled(Level::Error)) return;
  write(Level::Error, e.what);
  if (!e.hint.empty()) write(Level::Info, "  what to do: " + e.hint);
}

}  // namespace ckpt::log
