// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/transfer/host_memory.h"

#include <algorithm>
#include <array>
#include <sstream>
#include <string>

#include "common/proc/file.h"
#include "common/proc/maps.h"

namespace ckpt::ocl {
namespace {

constexpr std::string_view kFlags = "VmFlags:";
constexpr std::string_view kPinned = "VmPin:";

// The flags of memory that malloc(3) or a plain mmap(2) gives (proc_pid_smaps(5)): readable,
// writable, what it may become, accounted, soft-dirty, and without reserved swap space.
bool is_ordinary(const std::string &flags) {
  constexpr std::array<std::string_view, 8> kOrdinary{"rd", "wr", "mr", "mw",
                                                      "me", "ac", "sd", "nr"};
  std::istringstream words(flags);
  for (std::string word; words >> word;)
    if (std::find(kOrdinary.begin(), kOrdinary.end(), word) == kOrdinary.end()) return false;
  return true;
}

// What the kernel says about this process; empty if it cannot be read.
std::istringstream own(const char *file) {
  return std::istringstream(proc::text(proc::kSelf, file));
}

bool nothing_is_pinned() {
  std::istringstream status = own("status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with(kPinned))
      return std::strtoull(line.c_str() + kPinned.size(), nullptr, 10) == 0;
  return false;
}

}  // namespace

bool may_replace_pages(const std::byte *begin, const std::byte *end) {
  auto at = reinterpret_cast<u64>(begin), last = reinterpret_cast<u64>(end);
  std::istringstream maps = own("smaps");
  ProcMapping m;
  for (std::string line; at < last && std::getline(maps, line);) {
    if (std::optional<ProcMapping> next = parse_proc_mapping(line)) m = std::move(*next);
    if (!line.starts_with(kFlags) || m.end <= at) continue;
    if (m.begin > at || !m.private_anonymous() || m.permissions != "rw-p" ||
        !is_ordinary(line.substr(kFlags.size())))
      return false;
    at = m.end;
  }
  return at >= last && nothing_is_pinned();
}

}  // namespace ckpt::ocl
