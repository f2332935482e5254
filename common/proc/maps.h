// SPDX-License-Identifier: Apache-2.0
//
// The parser of /proc/PID/maps; proc(5) describes the format.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/bytes.h"

namespace ckpt {

struct ProcMapping {
  u64 begin = 0, end = 0;   // addresses; `end` is the first one after the mapping
  std::string permissions;  // "rw-p"
  u64 device = 0;           // of the file system, as in struct stat; 0: no file
  u64 inode = 0;
  std::string path;  // a file, "[heap]", "[anon:…]", or empty

  bool private_anonymous() const;
};

// One line; no value if it is malformed.
std::optional<ProcMapping> parse_proc_mapping(const std::string &line);
// A whole file; malformed lines are left out.
std::vector<ProcMapping> parse_proc_maps(std::string_view text);

namespace proc {
// What the kernel adds to the name of a file that was unlinked, in mappings and links (proc(5)).
inline constexpr std::string_view kUnlinked = " (deleted)";

// None of a process that has ended.
std::vector<ProcMapping> mappings_of(pid_t pid);
}  // namespace proc

}  // namespace ckpt
