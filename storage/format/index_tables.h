// SPDX-License-Identifier: Apache-2.0
//
// The tables in index.ckpt: parents, chunks and streams. Used only by index.cc.
#pragma once

#include "storage/format/index.h"

namespace ckpt::storage {

Writer encode_parents(const Index &index);
Writer encode_chunks(const Index &index);
Writer encode_streams(const Index &index);

// Each parses the body of its section. They must be called in this order, because chunks refer to
// parents and streams to chunks.
Result<> parse_parents(Reader in, Index &index);
Result<> parse_chunks(Reader in, Index &index);
Result<> parse_streams(Reader in, Index &index);

}  // namespace ckpt::storage
