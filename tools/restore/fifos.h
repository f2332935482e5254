// SPDX-License-Identifier: Apache-2.0
//
// Named pipes to other programs. CRIU opens them again, but not the programs at their other ends: a
// write to a FIFO that nothing reads ends the program by SIGPIPE, and a read from one that nothing
// writes is the end of file. A program that is started anew waits in open(2) for the other end
// instead; the restored one has its descriptor already.
#pragma once

#include <vector>

#include "common/base/unique_fd.h"
#include "tools/manifest/image_manifest.h"
#include "tools/reasons.h"

namespace ckpt::tools {

class Fifos {
 public:
  // Refuses FIFOs that nothing reads, and warns of those that nothing writes. What waits at the
  // other end is woken by that, so the ends stay open until CRIU has opened its own.
  void take(const ImageManifest &m, Reasons &reasons);
  void release() { ends_.clear(); }

 private:
  void take_reader(const ImageManifest::Fifo &f, Reasons &reasons);
  void take_writer(const ImageManifest::Fifo &f);

  std::vector<UniqueFd> ends_;
};

}  // namespace ckpt::tools
