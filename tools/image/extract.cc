// SPDX-License-Identifier: Apache-2.0
#include "common/ipc.h"
#include "tools/image/commands.h"
#include "tools/image/text.h"

namespace ckpt {

Result<> extract(const ImageReader &image, const std::string &stream, int fd) {
  const StreamEntry *entry = image.find(stream);
  if (!entry)
    return fail_with_hint(fmt::format("there is no stream '{}'", for_terminal(stream)),
                          "`ckpt-image show --streams` lists them");
  return image.for_each_chunk(*entry, ImageReader::Order::Ascending,
                              [fd](u64, ByteView bytes) { return write_all(fd, bytes); });
}

}  // namespace ckpt
