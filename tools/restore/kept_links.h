// SPDX-License-Identifier: Apache-2.0
//
// CRIU opens an unlinked file by a name "link_remap.N" (tools/dump/link_remaps.h), and removes that
// name once it has restored the program. An image can be restored any number of times, so the dump
// keeps the file under another name, and each restore creates CRIU's name from it. A name that
// exists already belongs to another dump or restore: CRIU would use that file instead of this
// program's.
#pragma once

#include <vector>

#include "tools/manifest/image_manifest.h"

namespace ckpt::tools {

class KeptLinks {
 public:
  KeptLinks() = default;
  KeptLinks(const KeptLinks &) = delete;
  ~KeptLinks();
  // Waits while another dump or restore uses one of the names.
  Result<> make(const std::vector<ImageManifest::Link> &links);

 private:
  std::vector<ImageManifest::Link> links_;
};

}  // namespace ckpt::tools
