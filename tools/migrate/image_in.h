// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "storage/read/image_reader.h"
#include "tools/migrate/ahead_in.h"
#include "tools/migrate/chunk_shelf.h"
#include "tools/migrate/frame_link.h"
#include "tools/migrate/messages.h"

namespace ckpt::tools {

// Receives what send_image() sends, and makes of it the image `path`, durable and checked as
// ImageReader::open() does. Wants only the chunks that are not on the shelf and were not sent
// ahead. On failure there is no image.
Result<Stored> receive_image(FrameLink &link, const ImageOffer &offer, const std::string &path,
                             const ChunkShelf &shelf, const storage::Key *key,
                             std::optional<AheadIn> ahead = {});

}  // namespace ckpt::tools
