// SPDX-License-Identifier: Apache-2.0
//
// CRIU opens an unlinked file by a name "link_remap.N" (tools/dump/link_remaps.h), and removes that
// name once it has restored the program. An image can be restored any number of times, so the dump
// keeps the file under a name of its own, and each restore makes CRIU's name from it. Names with
// the same number are those of other dumps and restores: their files would be taken for this
// program's.
#pragma once

#include <vector>

#include "tools/manifest/image_manifest.h"
#include "tools/reasons.h"

namespace ckpt::tools {

class KeptLinks {
 public:
  KeptLinks() = default;
  KeptLinks(const KeptLinks &) = delete;
  ~KeptLinks();
  // Waits while another dump or restore has one of the names.
  Result<> make(const std::vector<ImageManifest::Link> &links);

 private:
  std::vector<ImageManifest::Link> links_;
};

// Names of files that are missing here, and are not memory files, which the restore makes anew.
void check_links(const ImageManifest &m, Reasons &reasons);

}  // namespace ckpt::tools
