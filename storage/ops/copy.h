// SPDX-License-Identifier: Apache-2.0
//
// Copies of whole images that need no parent. Chunks are copied as they are stored, neither
// decompressed nor decrypted; their checksums are compared, so that damage is not copied.
#pragma once

#include <string>

#include "storage/read/image_reader.h"

namespace ckpt::storage {

struct CopyOptions {
  bool overwrite = false;
  const Key *key = nullptr;           // the key that the image was opened with
  FileSystem *file_system = nullptr;  // null: the real one
};

// Copies `from`, with all chunks of its parents that it uses, to a new image at `to`.
Result<> flatten_image(const ImageReader &from, const std::string &to, const CopyOptions &options);
// The same into a pipe (storage/ops/receive.h).
Result<> send_image(const ImageReader &from, int fd, const Key *key);

}  // namespace ckpt::storage
