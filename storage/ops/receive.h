// SPDX-License-Identifier: Apache-2.0
//
// Reads an image from a pipe (docs/FORMAT.md, "In a pipe"). The bytes are hostile input.
#pragma once

#include <memory>
#include <string>

#include "common/base/result.h"
#include "storage/format/pipe_format.h"
#include "storage/read/image_reader.h"

namespace ckpt::storage {

// Reads an image from `fd` into a new folder at `final_path`. On success the image is durable and
// checked as ImageReader::open() does; on failure there is no folder. Reads nothing from `fd`
// beyond the end of the image.
Result<> receive_image(int fd, const std::string &final_path, bool overwrite,
                       const ReadOptions &options = {});

// Reads an image from `fd` into unlinked files in `folder`. Only the reader keeps them, so a killed
// process leaves nothing behind.
Result<std::unique_ptr<ImageReader>> spool_image(int fd, const std::string &folder,
                                                 const ReadOptions &options = {});

}  // namespace ckpt::storage
