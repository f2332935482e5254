// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/transfer/host_memory.h"

#include <algorithm>
#include <array>
#include <string>

#include "common/base/words.h"
#include "common/proc/file.h"
#include "common/proc/maps.h"

namespace ckpt::ocl {
namespace {

constexpr std::string_view kFlags = "VmFlags:";
constexpr std::string_view kPinned = "VmPin:";

// The flags of memory that malloc(3) or a plain mmap(2) gives (proc_pid_smaps(5)): readable,
// writable, what it may become, accounted, soft-dirty, and without reserved swap space.
bool is_ordinary(std::string_view flags) {
  constexpr std::array<std::string_view, 8> kOrdinary{"rd", "wr", "mr", "mw",
                                                      "me", "ac", "sd", "nr"};
  for (std::string_view word : words_of(flags))
    if (std::find(kOrdinary.begin(), kOrdinary.end(), word) == kOrdinary.end()) return false;
  return true;
}

// Not known: as if something were.
bool nothing_is_pinned() {
  const std::string status = proc::text(proc::kSelf, "status");
  for (std::string_view line : lines_of(status))
    if (line.starts_with(kPinned)) {
      line.remove_prefix(kPinned.size());
      return next_word(line) == "0";
    }
  return false;
}

}  // namespace

bool may_replace_pages(const std::byte *begin, const std::byte *end) {
  auto at = reinterpret_cast<u64>(begin), last = reinterpret_cast<u64>(end);
  const std::string maps = proc::text(proc::kSelf, "smaps");
  ProcMapping m;
  for (std::string_view line : lines_of(maps)) {
    if (at >= last) break;
    if (std::optional<ProcMapping> next = parse_proc_mapping(std::string(line)))
      m = std::move(*next);
    if (!line.starts_with(kFlags) || m.end <= at) continue;
    if (m.begin > at || !m.private_anonymous() || m.permissions != "rw-p" ||
        !is_ordinary(line.substr(kFlags.size())))
      return false;
    at = m.end;
  }
  return at >= last && nothing_is_pinned();
}

}  // namespace ckpt::ocl
