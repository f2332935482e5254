// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "storage/read/image_reader.h"

namespace ckpt::storage {

struct PruneReport {
  std::vector<std::string> kept, removed;  // paths, oldest first
};

// Removes all images of the chain of `image` except the `keep` newest. A chain is all images of the
// folder that go back to the same first image. Chunks that a kept image needs from a removed one
// are copied into it first, so that each kept image can be read at every moment. Fails without
// removing anything if an image to be removed is the parent of a dump in progress.
Result<PruneReport> prune_chain(const std::string &image, size_t keep,
                                const ReadOptions &options = {});

// Whether the image at `path` is encrypted with a key that was not given.
bool has_other_key(const std::string &path, const ReadOptions &options);

}  // namespace ckpt::storage
