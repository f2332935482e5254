// SPDX-License-Identifier: Apache-2.0
//
// What this process has mapped: /proc/self/maps.
#pragma once

#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::agent {

struct ProcMapping {
  u64 begin = 0, end = 0;  // addresses
  std::string rights;      // "rw-p"
  u64 inode = 0;
  std::string name;  // a path, "[heap]", or empty

  bool private_anonymous() const;
};

// Of one line of /proc/self/maps; false: not such a line.
bool parse_mapping(const std::string &line, ProcMapping &out);
Result<std::vector<ProcMapping>> read_maps();

}  // namespace ckpt::agent
