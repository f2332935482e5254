// SPDX-License-Identifier: Apache-2.0
//
// Images copied chunk by chunk as they are stored, neither decompressed nor decrypted: an increment
// made whole, sent through a pipe, or freed of parents that shall go. Every chunk's checksum is
// compared on the way, so damage is not handed on.
#pragma once

#include <string>
#include <vector>

#include "storage/read/image_reader.h"

namespace ckpt::storage {

struct CopyOptions {
  bool overwrite = false;
  const Key *key = nullptr;           // that `from` was opened with
  FileSystem *file_system = nullptr;  // null: the real one
};

// Writes `from`, with all that it uses of its parents, as an image that needs none.
Result<> flatten_image(const ImageReader &from, const std::string &to, const CopyOptions &options);
// The same into a pipe (storage/ops/receive.h).
Result<> send_image(const ImageReader &from, int fd, const Key *key);

// Replaces `from` by the same image without the parents `dropped`: their chunks are referred to in
// the own files of `kept`, images beside it, or are copied. Its own chunks stay at their places, so
// that increments on it stay right.
Result<> free_of_parents(const ImageReader &from, const std::vector<Uuid> &dropped,
                         const std::vector<const ImageReader *> &kept, const CopyOptions &options);

}  // namespace ckpt::storage
