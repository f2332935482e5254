// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "storage/read/image_reader.h"
#include "tools/migrate/frame_link.h"
#include "tools/migrate/messages.h"

namespace ckpt::tools {

// The numbers in the chunk table of the chunks that are in the image's own file.
std::vector<u32> own_chunks(const storage::Index &index);

struct SentImage {
  Stored stored;
  u64 bytes = 0;       // that went over the link
  double seconds = 0;  // since the image was complete here
};
using SendProgress = std::function<void(u64 done, u64 total)>;

// Sends the index, and of the image's own chunks those that the receiver wants, as they are stored.
// The chunks of the parents went with these.
Result<SentImage> send_image(FrameLink &link, u32 round, const storage::ImageReader &image,
                             const SendProgress &progress);

}  // namespace ckpt::tools
