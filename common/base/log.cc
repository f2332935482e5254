// SPDX-License-Identifier: Apache-2.0
#include "common/base/log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <ctime>

#include "common/base/printable.h"

namespace ckpt::log {
namespace {

const char *g_name = "ckpt";
std::atomic<int> g_lowest{-1};  // negative: CKPT_LOG was not read yet

Level level_from_environment() {
  const char *s = ::secure_getenv("CKPT_LOG");
  std::string_view v = s ? s : "";
  if (v == "debug") return Level::Debug;
  if (v == "info") return Level::Info;
  if (v == "error") return Level::Error;
  if (v == "off") return Level::Off;
  return Level::Warn;
}

// Opened for every line: CRIU would have to save a descriptor that stays open.
int open_file() {
  const char *path = ::secure_getenv("CKPT_LOG_FILE");
  return path ? ::open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NONBLOCK, 0600) : -1;
}

// systemd.exec(5): JOURNAL_STREAM is the device and inode of the stream to the journal. Standard
// error may have been redirected since, so they are compared.
bool is_journal(int fd) {
  const char *stream = std::getenv("JOURNAL_STREAM");
  struct stat st {};
  return stream && ::fstat(fd, &st) == 0 && fmt::format("{}:{}", st.st_dev, st.st_ino) == stream;
}

// sd-daemon(3): SD_ERR, SD_WARNING, SD_INFO, SD_DEBUG.
std::string_view priority(Level level) {
  switch (level) {
    case Level::Debug: return "<7>";
    case Level::Warn: return "<4>";
    case Level::Error: return "<3>";
    default: return "<6>";
  }
}

std::string_view level_name(Level level) {
  switch (level) {
    case Level::Debug: return "debug: ";
    case Level::Warn: return "warning: ";
    case Level::Error: return "error: ";
    default: return "";
  }
}

// For CKPT_LOG_FILE, which may have lines of many processes: "2026-11-27T18:09:46Z 4711 ".
std::string when_and_who() {
  std::time_t now = ::time(nullptr);
  std::tm utc{};
  char text[32] = "";
  if (::gmtime_r(&now, &utc)) std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ ", &utc);
  return fmt::format("{}{} ", text, ::getpid());
}

}  // namespace

void set_name(const char *name) { g_name = name; }
void set_level(Level lowest) { g_lowest = static_cast<int>(lowest); }

bool enabled(Level level) {
  int lowest = g_lowest.load(std::memory_order_relaxed);
  if (lowest < 0) g_lowest = lowest = static_cast<int>(level_from_environment());
  return static_cast<int>(level) >= lowest && level != Level::Off;
}

void write(Level level, std::string_view text, std::string_view module) {
  int saved = errno;
  int file = open_file();
  int fd = file >= 0 ? file : STDERR_FILENO;
  std::string line = fmt::format("{}{}: {}{}{}{}\n",
                                 file >= 0        ? when_and_who()
                                 : is_journal(fd) ? priority(level)
                                                  : "",
                                 g_name, module, module.empty() ? "" : ": ", level_name(level),
                                 printable_lines(text));
  // A log that cannot be written has no other place to report that.
  if (::write(fd, line.data(), line.size()) < 0) errno = 0;
  if (file >= 0) ::close(file);
  errno = saved;
}

void error(const Error &e, std::string_view module) {
  if (!enabled(Level::Error)) return;
  write(Level::Error, e.what, module);
  if (!e.hint.empty()) write(Level::Info, "  what to do: " + e.hint, module);
}

}  // namespace ckpt::log
