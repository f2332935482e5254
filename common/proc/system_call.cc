// SPDX-License-Identifier: Apache-2.0
#include "common/proc/system_call.h"

#include "common/base/words.h"
#include "common/proc/file.h"

namespace ckpt::proc {

// The number, six arguments, the stack pointer and the program counter; behind the number -1 the
// last two alone.
std::optional<SystemCall> parse_system_call(std::string_view text) {
  constexpr int kHex = 16;
  std::vector<std::string_view> words = words_of(text);
  SystemCall c;
  if (words.size() < 3 || !parse_number(words.front(), c.number) ||
      !parse_number(words.back(), c.program_counter, kHex))
    return std::nullopt;
  if (c.number < 0) return c;
  if (words.size() != 1 + c.arguments.size() + 2) return std::nullopt;
  for (size_t i = 0; i < c.arguments.size(); i++)
    if (!parse_number(words[1 + i], c.arguments[i], kHex)) return std::nullopt;
  return c;
}

std::optional<SystemCall> system_call_of(pid_t pid, pid_t thread) {
  std::string line = text(pid, thread, "syscall");
  return parse_system_call(line);
}

}  // namespace ckpt::proc
