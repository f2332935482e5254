// SPDX-License-Identifier: Apache-2.0
//
// An unlinked file that still has another name, such as a POSIX named semaphore (sem_open(3) makes
// it under a name that it removes again). CRIU cannot know the other name, so it gives the file a
// further one in the same folder, "link_remap.N", by which a restore finds it (criu dump
// --link-remap). These names belong to the image.
#pragma once

#include <string>
#include <vector>

#include "tools/dump/outer_pipes.h"
#include "tools/session/target.h"

namespace ckpt::tools {

// The names that CRIU has made for the files of the stopped program.
std::vector<std::string> find_link_remaps(const Target &target, const DescriptorTable &table);
// For a dump that fails after CRIU.
void remove_link_remaps(const std::vector<std::string> &paths);

}  // namespace ckpt::tools
