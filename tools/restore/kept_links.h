// SPDX-License-Identifier: Apache-2.0
//
// CRIU removes the names "link_remap.N" (tools/dump/link_remaps.h) once it has restored the
// program. An image can be restored any number of times, so ckpt-restore keeps each under a second
// name meanwhile, and gives it back.
#pragma once

#include <string>
#include <vector>

#include "tools/reasons.h"

namespace ckpt::tools {

class KeptLinks {
 public:
  explicit KeptLinks(std::vector<std::string> paths);
  KeptLinks(const KeptLinks &) = delete;
  ~KeptLinks();

 private:
  std::vector<std::string> paths_;
};

// Names of files that are missing here.
void check_links(const std::vector<std::string> &paths, Reasons &reasons);

}  // namespace ckpt::tools
