// SPDX-License-Identifier: Apache-2.0
//
// CRIU opens an unlinked file by a name "link_remap.N" (tools/dump/link_remaps.h), and removes that
// name once it has restored the program. An image can be restored any number of times, so the dump
// keeps the file under a name of its own, and each restore makes CRIU's name from it.
#pragma once

#include <vector>

#include "tools/manifest/image_manifest.h"
#include "tools/reasons.h"

namespace ckpt::tools {

class KeptLinks {
 public:
  explicit KeptLinks(std::vector<ImageManifest::Link> links);
  KeptLinks(const KeptLinks &) = delete;
  ~KeptLinks();

 private:
  std::vector<ImageManifest::Link> links_;
};

// Names of files that are missing here, and are not memory files, which the restore makes anew.
void check_links(const ImageManifest &m, Reasons &reasons);

}  // namespace ckpt::tools
