// SPDX-License-Identifier: Apache-2.0
//
// index.ckpt as bytes. parse_index() accepts any bytes: it compares every length with what is left
// before it allocates, so it never holds more than a small multiple of its input.
#pragma once

#include "common/base/result.h"
#include "storage/format/format.h"
#include "storage/format/key.h"

namespace ckpt::storage {

// Fails if the index exceeds a limit of the format (too many streams, more than kMaxIndexBytes).
// Always writes kFormatVersion, not index.version. Seals the body if there is a key.
Result<Bytes> encode_index(const Index &index, const Key *key = nullptr);
Result<Index> parse_index(ByteView file, const Key *key = nullptr);

// The header of chunks.ckpt: magic, version and the image's uuid.
Bytes encode_chunks_header(const Uuid &uuid, u32 version = kFormatVersion);

}  // namespace ckpt::storage
