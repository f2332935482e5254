// SPDX-License-Identifier: Apache-2.0
#include "common/proc/stat.h"

#include <cerrno>

#include "common/base/file_text.h"
#include "common/base/words.h"
#include "common/proc/file.h"

namespace ckpt::proc {
namespace {

constexpr u64 kExiting = 4;  // PF_EXITING (include/linux/sched.h)

// The fields behind the name, of which the manual page counts the first as the third. The last one
// that is read here is the last that every kernel has had since 2.6.
enum StatField : size_t {
  kState,
  kParent,
  kGroup,
  kSession,
  kTerminal,
  kFlags = 6,
  kUser = 11,
  kSystem,
  kStart = 19
};

Result<Stat> read_stat_file(const std::string &path) {
  CKPT_TRY(std::string text, file_text(path));
  std::optional<Stat> stat = parse_stat(text);
  if (!stat) return fail("{} cannot be parsed", path);
  if (stat->is_reaped()) {
    errno = ESRCH;
    return fail_errno("cannot read {}", path);
  }
  return std::move(*stat);
}

}  // namespace

// The name is in brackets, and may contain blanks and brackets itself.
std::optional<Stat> parse_stat(std::string_view text) {
  size_t open = text.find('('), close = text.rfind(')');
  if (open == text.npos || close == text.npos || close < open) return std::nullopt;
  std::vector<std::string_view> fields = words_of(text.substr(close + 1));
  if (fields.size() <= kStart) return std::nullopt;
  Stat s;
  u64 flags = 0, user = 0, system = 0;
  i64 terminal = 0;  // an int in the kernel, which may be negative
  if (!parse_number(fields[kParent], s.parent) || !parse_number(fields[kGroup], s.group) ||
      !parse_number(fields[kSession], s.session) || !parse_number(fields[kTerminal], terminal) ||
      !parse_number(fields[kFlags], flags) || !parse_number(fields[kUser], user) ||
      !parse_number(fields[kSystem], system) || !parse_number(fields[kStart], s.start_ticks))
    return std::nullopt;
  s.command = text.substr(open + 1, close - open - 1);
  s.state = fields[kState].front();
  s.terminal = static_cast<u32>(terminal);
  s.ending = flags & kExiting;
  s.used_ticks = user + system;
  return s;
}

Result<Stat> read_stat(pid_t pid) { return read_stat_file(path(pid, "stat")); }

Result<Stat> read_stat(pid_t pid, pid_t thread) {
  return read_stat_file(path(pid, thread, "stat"));
}

Result<u64> start_ticks_of(pid_t pid) {
  CKPT_TRY(Stat stat, read_stat(pid));
  return stat.start_ticks;
}

}  // namespace ckpt::proc
