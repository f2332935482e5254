// SPDX-License-Identifier: Apache-2.0
#include "common/ipc/unix_socket.h"
#include "tools/image/commands.h"
#include "tools/image/text.h"

namespace ckpt::tools {

Result<> extract(const storage::ImageReader &image, const std::string &stream, int fd) {
  const storage::StreamEntry *entry = image.find(stream);
  if (!entry)
    return fail_with_hint(fmt::format("the image has no stream '{}'", printable(stream)),
                          "ckpt-image show --streams lists all streams");
  return image.for_each_chunk(*entry, storage::ImageReader::Order::Ascending,
                              [fd](u64, ByteView bytes) { return write_all(fd, bytes); });
}

}  // namespace ckpt::tools
