// SPDX-License-Identifier: Apache-2.0
//
// index.ckpt as bytes. parse_index() takes any bytes: every length is checked against what is left
// before memory is taken for it, so that it never holds more than a small multiple of its input.
#pragma once

#include "common/base/result.h"
#include "storage/format/format.h"
#include "storage/format/key.h"

namespace ckpt::storage {

// Fails where a limit of the format is passed (too many streams, an index over kMaxIndexBytes).
// Writes the present version, whatever index.version says. With a key the body is sealed.
Result<Bytes> encode_index(const Index &index, const Key *key = nullptr);
Result<Index> parse_index(ByteView file, const Key *key = nullptr);

// The first bytes of chunks.ckpt: magic, version and the image's uuid.
Bytes encode_chunks_header(const Uuid &uuid, u32 version = kFormatVersion);

}  // namespace ckpt::storage
