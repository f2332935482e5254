// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer: any bytes as a chunk's zstd frame (bombs, cut frames, wrong sizes), and any bytes
// encoded and back.
#include <algorithm>
#include <cstdlib>

#include "storage/chunk/chunk_codec.h"

namespace {

void decode_hostile(ckpt::ByteView stored) {
  static ckpt::ChunkDecoder decoder;
  static ckpt::Bytes raw(64u << 10);
  ckpt::ChunkEntry entry{.codec = ckpt::Codec::Zstd};
  (void)decoder.decode(entry, stored, raw);
}

void round_trip(ckpt::ByteView raw) {
  static ckpt::ChunkEncoder encoder(1);
  static ckpt::ChunkDecoder decoder;
  if (raw.empty() || ckpt::all_zero(raw)) return;
  ckpt::Result<ckpt::ChunkEncoder::Encoded> e = encoder.encode(raw);
  ckpt::Bytes back(raw.size());
  ckpt::ChunkEntry entry{.codec = e ? e->codec : ckpt::Codec::Zero};
  if (!e || !decoder.decode(entry, e->stored, back) || !std::ranges::equal(raw, back)) std::abort();
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(const uint8_t *data,
                                                                             size_t size) {
  ckpt::ByteView bytes = ckpt::view(data, size);
  decode_hostile(bytes);
  round_trip(bytes);
  return 0;
}
