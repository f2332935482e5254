// SPDX-License-Identifier: Apache-2.0
//
// The payload of an entry, decompressed on demand.
#pragma once

#include <memory>

#include "fatbin/container.h"

namespace ckpt::fatbin {

// Bytes that the payload owns, or a view into the memory that the image was made from.
class Payload {
 public:
  Payload() = default;
  explicit Payload(ByteView view) : view_(view) {}
  Payload(std::unique_ptr<std::byte[]> owned, size_t bytes)
      : owned_(std::move(owned)), view_(owned_.get(), bytes) {}

  ByteView bytes() const { return view_; }
  // Up to the first NUL, which ends PTX.
  std::string_view text() const;

 private:
  std::unique_ptr<std::byte[]> owned_;
  ByteView view_;
};

// Reads and decompresses an entry. An entry that is longer than `max_bytes`, stored or (by its
// header) decompressed, is refused before anything is read. Memory: the decompressed bytes, and the
// stored ones until then. LTO-IR is refused, since its encoding is not public.
Result<Payload> read_payload(const Source &source, const Entry &entry,
                             u64 max_bytes = kMaxPayloadBytes);

}  // namespace ckpt::fatbin
