// SPDX-License-Identifier: Apache-2.0
//
// Whole reads and writes on a descriptor: short counts and EINTR are retried.
#pragma once

#include <sys/types.h>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt {

Result<> write_all(int fd, ByteView data);
// At `offset` of the file; the position of the file does not change (pwrite).
Result<> write_all_at(int fd, ByteView data, off_t offset);

// Fails at end of file.
Result<> read_exactly(int fd, void *data, size_t size);
// At `offset` of the file (pread). Returns how many bytes there were: fewer only at end of file.
Result<size_t> read_at(int fd, std::span<std::byte> into, off_t offset);

}  // namespace ckpt
