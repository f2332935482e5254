// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/base/result.h"
#include "storage/read/image_reader.h"
#include "tools/manifest/image_manifest.h"

namespace ckpt::tools {

// Gives a file the contents that the image has of it (dump/file_contents.h). The file has its size
// already.
Result<> write_contents(int fd, const ImageManifest::StoredFile &f,
                        const storage::ImageReader &image);

}  // namespace ckpt::tools
