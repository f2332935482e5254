// SPDX-License-Identifier: Apache-2.0
//
// The tables in index.ckpt: parents, chunks, streams. Parts of index.cc.
#pragma once

#include "storage/format/index.h"

namespace ckpt::storage {

Writer encode_parents(const Index &index);
Writer encode_chunks(const Index &index);
Writer encode_streams(const Index &index);

// Each takes its section's body, and what was parsed before it: parents, then chunks, then streams.
Result<> parse_parents(Reader in, Index &index);
Result<> parse_chunks(Reader in, Index &index);
Result<> parse_streams(Reader in, Index &index);

}  // namespace ckpt::storage
