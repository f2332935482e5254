// SPDX-License-Identifier: Apache-2.0
#include "storage/chunk/content_cut.h"

#include <utility>

#include "storage/format/hash.h"

namespace ckpt::storage {
namespace {

constexpr u64 kMask = kMeanCutBytes / kPageBytes - 1;
static_assert((kMask & (kMask + 1)) == 0);

bool ends_chunk(const std::byte *page) { return (xxh3_64({page, kPageBytes}) & kMask) == 0; }

}  // namespace

size_t ContentCut::next(ByteView data) {
  while (data.size() - seen_ >= kPageBytes) {
    const std::byte *page = data.data() + seen_;
    seen_ += kPageBytes;
    if (seen_ >= kMaxCutBytes || (seen_ >= kMinCutBytes && ends_chunk(page)))
      return std::exchange(seen_, 0);
  }
  return 0;
}

}  // namespace ckpt::storage
