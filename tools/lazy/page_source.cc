// SPDX-License-Identifier: Apache-2.0
#include "tools/lazy/page_source.h"

#include "tools/lazy/owed_map.h"

namespace ckpt::tools {

PageRun PageSource::around(u64 offset) const {
  size_t at = stream_->chunk_at(offset);
  u32 chunk = stream_->chunks[at];
  u64 begin = (stream_->starts[at] + kLazyPage - 1) / kLazyPage * kLazyPage;
  u64 end = (stream_->starts[at] + image_->index().chunks[chunk].raw_size) / kLazyPage * kLazyPage;
  if (offset < begin || offset + kLazyPage > end) return {offset, offset + kLazyPage, {}};
  return {begin, end, chunk};
}

Result<ByteView> PageSource::read(const PageRun &run) {
  u64 size = run.end - run.begin;
  if (!run.chunk) {
    page_.resize(size);
    CKPT_CHECK(image_->read(*stream_, run.begin, page_));
    return page_;
  }
  CKPT_TRY(ByteView chunk, ahead_->take(*run.chunk));
  return chunk.subspan(run.begin - stream_->starts[stream_->chunk_at(run.begin)], size);
}

}  // namespace ckpt::tools
