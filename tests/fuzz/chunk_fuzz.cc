// SPDX-License-Identifier: Apache-2.0
//
// libFuzzer: decodes any bytes as the zstd frame of a chunk (bombs, truncated frames, wrong sizes),
// and checks that any bytes survive encoding and decoding.
#include <algorithm>
#include <cstdlib>

#include "storage/chunk/chunk_codec.h"

namespace {

using namespace ckpt;
using namespace ckpt::storage;

void decode_hostile(ByteView stored) {
  static ChunkDecoder decoder;
  static Bytes raw(64u << 10);
  ChunkEntry entry{.codec = Codec::Zstd};
  (void)decoder.decode(entry, stored, raw);
}

void round_trip(ByteView raw) {
  static ChunkEncoder encoder(1);
  static ChunkDecoder decoder;
  if (raw.empty() || all_zero(raw)) return;
  Result<ChunkEncoder::Encoded> e = encoder.encode(raw);
  Bytes back(raw.size());
  ChunkEntry entry{.codec = e ? e->codec : Codec::Zero};
  if (!e || !decoder.decode(entry, e->stored, back) || !std::ranges::equal(raw, back)) std::abort();
}

}  // namespace

extern "C" __attribute__((visibility("default"))) int LLVMFuzzerTestOneInput(const uint8_t *data,
                                                                             size_t size) {
  ByteView bytes = view(data, size);
  decode_hostile(bytes);
  round_trip(bytes);
  return 0;
}
