// SPDX-License-Identifier: Apache-2.0
//
// Where the contents of a process's pages stand: in a stream of the image, in chunks, which are
// decoded as a whole. So the pages of one chunk are placed together.
#pragma once

#include <optional>

#include "common/base/result.h"
#include "storage/read/image_reader.h"
#include "tools/lazy/chunks_ahead.h"

namespace ckpt::tools {

// Pages side by side in the stream.
struct PageRun {
  u64 begin, end;            // in bytes of the stream
  std::optional<u32> chunk;  // none: a page of which one chunk has a part only
};

class PageSource {
 public:
  PageSource(const storage::ImageReader &image, const storage::StreamEntry &stream,
             ChunksAhead &ahead)
      : image_(&image), stream_(&stream), ahead_(&ahead) {}

  // All whole pages of the chunk with the page at `offset`, or this page alone.
  PageRun around(u64 offset) const;
  // Whether read() returns at once.
  bool has(const PageRun &run) const { return !run.chunk || ahead_->has(*run.chunk); }
  // Until the next call. The bytes were compared with their checksum; an error names the chunk.
  Result<ByteView> read(const PageRun &run);

 private:
  const storage::ImageReader *image_;
  const storage::StreamEntry *stream_;
  ChunksAhead *ahead_;
  Bytes page_;
};

}  // namespace ckpt::tools
