// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "storage/write/image_writer.h"
#include "tools/manifest/manifest.h"

namespace ckpt::tools {

// Writes the contents of a file into a stream of the image. Returns what the manifest says about
// the file, without its names and folders.
Result<manifest::StoredFile> save_contents(storage::ImageWriter &image, const std::string &stream,
                                           int fd);

// The folders that lead to a file, the outermost first, with their rights: a restore makes those
// again that are missing. `files`: what the program's paths begin with here (Target).
std::vector<manifest::StoredFolder> describe_folders(const std::string &path,
                                                     const std::string &files);

}  // namespace ckpt::tools
