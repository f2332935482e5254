// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "storage/read/image_reader.h"

namespace ckpt::storage {

struct PruneReport {
  std::vector<std::string> kept, removed;  // paths, oldest first
};

// Of the images that belong to the chain of `image` (all in its folder that go back to one first
// image) keeps the `keep` newest. What these use of the others is copied into them first, so that
// at every moment each kept image can be read. Removes nothing while one that is to go is held, as
// the parent of a dump that is under way.
Result<PruneReport> prune_chain(const std::string &image, size_t keep,
                                const ReadOptions &options = {});

// Fails where another image in the folder of `image` is an increment on it, as far as they can be
// read: it would be lost with it.
Result<> check_not_a_parent(const std::string &image, const ReadOptions &options = {});

}  // namespace ckpt::storage
