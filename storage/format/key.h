// SPDX-License-Identifier: Apache-2.0
//
// Encryption at rest: XChaCha20-Poly1305 of libsodium with one key of 32 bytes. Sealed bytes can
// neither be read nor changed without the key. Each seal() draws a random nonce of 24 bytes, so one
// key can serve any number of images, and sealed chunks can be copied from one image to another.
#pragma once

#include <array>
#include <span>

#include "common/base/result.h"
#include "storage/format/format.h"

namespace ckpt::storage {

// What sealing adds: a nonce before the encrypted bytes and an authenticator after them.
inline constexpr size_t kNonceBytes = 24;
inline constexpr size_t kSealBytes = kNonceBytes + 16;

class Key {
 public:
  static constexpr size_t kBytes = 32;

  static Result<Key> from_bytes(ByteView bytes);
  Key(const Key &) = default;
  Key &operator=(const Key &) = default;
  ~Key();  // wipes the bytes

  // For another process of ours that reads the image.
  std::span<const u8> bytes() const { return bytes_; }
  // Identifies the key of image `uuid` without revealing anything else about the key. Never 0.
  u64 check(const Uuid &uuid) const;
  // `sealed` has plain.size() + kSealBytes bytes. `context` is authenticated but not stored.
  void seal(ByteView context, ByteView plain, std::span<std::byte> sealed) const;
  // `plain` has sealed.size() - kSealBytes bytes. Fails if any bit of `sealed` or `context` differs
  // from seal().
  Result<> open(ByteView context, ByteView sealed, std::span<std::byte> plain) const;

 private:
  Key() = default;
  std::array<u8, kBytes> bytes_{};
};

// The context of a sealed chunk. It binds the sealed bytes to their chunk, so that they cannot be
// moved to another one.
Bytes seal_context(const ChunkAddress &address, u32 raw_size, Codec codec);

}  // namespace ckpt::storage
