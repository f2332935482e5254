// SPDX-License-Identifier: Apache-2.0
//
// The image that a dump writes: in a partial folder beside its final name, or as a stream to
// standard output.
#pragma once

#include <memory>

#include "common/base/result.h"
#include "storage/write/image_writer.h"
#include "tools/dump/dump.h"

namespace ckpt::tools {

Result<std::unique_ptr<storage::ImageWriter>> create_image(const DumpOptions &options);
// Removes the images of the chain that DumpOptions::keep does not keep. The new image is complete,
// so a failure is only a warning.
void remove_older_images(const DumpOptions &options);

}  // namespace ckpt::tools
