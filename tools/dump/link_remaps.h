// SPDX-License-Identifier: Apache-2.0
//
// An unlinked file that still has another name, such as a POSIX named semaphore (sem_open(3) makes
// it under a name that it removes again). CRIU cannot know the other name, so it gives the file an
// additional one in the same folder, "link_remap.N", by which a restore finds it (criu dump
// --link-remap). CRIU fails if that name exists, and its restore removes it. So the dump renames it
// to "link_remap.N.ckpt-XXXX"; this name belongs to the image.
#pragma once

#include <vector>

#include "tools/dump/outer_pipes.h"
#include "tools/manifest/image_manifest.h"
#include "tools/session/target.h"

namespace ckpt::tools {

// True if CRIU has failed because another dump or restore, which may end soon, uses the name.
bool link_name_is_taken(const Error &of_criu);
// Renames the names that CRIU has made for the files of the stopped program.
std::vector<ImageManifest::Link> keep_link_remaps(const Target &target,
                                                  const DescriptorTable &table);

// For a dump that fails after CRIU.
void remove_links(const std::vector<ImageManifest::Link> &links, const std::string &files);

}  // namespace ckpt::tools
