// SPDX-License-Identifier: Apache-2.0
//
// The payload of an entry, decompressed on demand.
#pragma once

#include <memory>

#include "fatbin/container.h"

namespace ckpt::fatbin {

// Bytes that are owned, or that lie in the memory which the image was made of.
class Payload {
 public:
  Payload() = default;
  explicit Payload(ByteView view) : view_(view) {}
  Payload(std::unique_ptr<std::byte[]> owned, size_t bytes)
      : owned_(std::move(owned)), view_(owned_.get(), bytes) {}

  ByteView bytes() const { return view_; }
  // Up to the first NUL, as PTX ends with one.
  std::string_view text() const;

 private:
  std::unique_ptr<std::byte[]> owned_;
  ByteView view_;
};

// Reads and decompresses. An entry that is, or says that it will be, longer than `most` bytes is
// refused before anything is read. Memory: the decompressed bytes, and the stored ones meanwhile.
// LTO-IR is refused: its coding is not public.
Result<Payload> read_payload(const Source &source, const Entry &entry, u64 most = kMaxPayloadBytes);

}  // namespace ckpt::fatbin
