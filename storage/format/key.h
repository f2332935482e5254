// SPDX-License-Identifier: Apache-2.0
//
// Encryption at rest: XChaCha20-Poly1305 of libsodium under one key of 32 bytes. What is sealed can
// neither be read nor changed without the key. Each seal draws a nonce of 24 random bytes, so a key
// may serve any number of images, and sealed chunks may be copied from one image to another.
#pragma once

#include <array>
#include <span>
#include <string>

#include "common/base/result.h"
#include "storage/format/format.h"

namespace ckpt::storage {

// What sealing adds: the nonce before, the authenticator behind.
inline constexpr size_t kNonceBytes = 24;
inline constexpr size_t kSealBytes = kNonceBytes + 16;

class Key {
 public:
  static constexpr size_t kBytes = 32;

  // A file of 32 bytes, or of 64 hexadecimal digits and a newline if there is one.
  static Result<Key> from_file(const std::string &path);
  static Result<Key> from_bytes(ByteView bytes);
  Key(const Key &) = default;
  Key &operator=(const Key &) = default;
  ~Key();  // wipes it

  // Tells whether this is the key of image `uuid`, and nothing else about it. Never 0.
  u64 check(const Uuid &uuid) const;
  // `sealed` has plain.size() + kSealBytes bytes; `context` is authenticated too, not stored.
  void seal(ByteView context, ByteView plain, std::span<std::byte> sealed) const;
  // `plain` has sealed.size() - kSealBytes bytes. Fails where a bit of `sealed` or of `context` is
  // another than at seal().
  Result<> open(ByteView context, ByteView sealed, std::span<std::byte> plain) const;

 private:
  Key() = default;
  std::array<u8, kBytes> bytes_{};
};

// What a sealed chunk is bound to, so that none can be put in another's place.
Bytes seal_context(const ChunkAddress &address, u32 raw_size, Codec codec);

}  // namespace ckpt::storage
