// SPDX-License-Identifier: Apache-2.0
//
// An image in a pipe (docs/FORMAT.md, "In a pipe"): the bytes of chunks.ckpt in pieces as they come
// to be, and then the index.
#pragma once

#include <string>

#include "common/base/result.h"
#include "storage/read/image_reader.h"

namespace ckpt::storage {

// How the tools call an image that is in a pipe.
inline constexpr std::string_view kPipeImage = "-";

inline constexpr std::string_view kPipeMagic = "CKPTPIPE";
inline constexpr u32 kFirstPipeVersion = 2;
inline constexpr u32 kMaxPieceBytes = 16u << 20;

Bytes encode_pipe_header();

// Reads an image from `fd` into a new folder at `final_path`, which is there, durable and checked
// as ImageReader::open() checks, or not at all. Takes nothing from `fd` after the image's end.
Result<> receive_image(int fd, const std::string &final_path, bool overwrite,
                       const ReadOptions &options = {});

// Reads an image from `fd` into files without a name under `folder` (the reader alone keeps them: a
// process that is killed leaves nothing).
Result<std::unique_ptr<ImageReader>> spool_image(int fd, const std::string &folder,
                                                 const ReadOptions &options = {});

}  // namespace ckpt::storage
