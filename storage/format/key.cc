// SPDX-License-Identifier: Apache-2.0
#include "storage/format/key.h"

#include <sodium.h>

#include <algorithm>

namespace ckpt::storage {
namespace {

static_assert(Key::kBytes == crypto_aead_xchacha20poly1305_ietf_KEYBYTES);
static_assert(kNonceBytes == crypto_aead_xchacha20poly1305_ietf_NPUBBYTES);
static_assert(kSealBytes == kNonceBytes + crypto_aead_xchacha20poly1305_ietf_ABYTES);

const u8 *bytes_of(ByteView b) { return reinterpret_cast<const u8 *>(b.data()); }
u8 *bytes_of(std::span<std::byte> b) { return reinterpret_cast<u8 *>(b.data()); }

bool sodium_works() {
  static const bool works = ::sodium_init() >= 0;
  return works;
}

}  // namespace

Result<Key> Key::from_bytes(ByteView bytes) {
  if (!sodium_works()) return fail("cannot initialize libsodium");
  if (bytes.size() != kBytes) return fail("a key has {} bytes, not {}", kBytes, bytes.size());
  Key key;
  std::copy_n(bytes_of(bytes), kBytes, key.bytes_.begin());
  return key;
}

Key::~Key() { ::sodium_memzero(bytes_.data(), bytes_.size()); }

u64 Key::check(const Uuid &uuid) const {
  static constexpr std::string_view kPurpose = "ckpt image key check";
  Bytes message = Writer().raw(kPurpose.data(), kPurpose.size()).raw(uuid.data(), 16).take();
  u8 hash[crypto_generichash_BYTES_MIN];
  ::crypto_generichash(hash, sizeof hash, bytes_of(ByteView(message)), message.size(),
                       bytes_.data(), bytes_.size());
  u64 out;
  std::memcpy(&out, hash, sizeof out);
  return out ? out : 1;
}

void Key::seal(ByteView context, ByteView plain, std::span<std::byte> sealed) const {
  u8 *nonce = bytes_of(sealed);
  ::randombytes_buf(nonce, kNonceBytes);
  ::crypto_aead_xchacha20poly1305_ietf_encrypt(nonce + kNonceBytes, nullptr, bytes_of(plain),
                                               plain.size(), bytes_of(context), context.size(),
                                               nullptr, nonce, bytes_.data());
}

Result<> Key::open(ByteView context, ByteView sealed, std::span<std::byte> plain) const {
  if (sealed.size() < kSealBytes || plain.size() != sealed.size() - kSealBytes)
    return fail("too short to be sealed");
  const u8 *nonce = bytes_of(sealed);
  if (::crypto_aead_xchacha20poly1305_ietf_decrypt(
          bytes_of(plain), nullptr, nullptr, nonce + kNonceBytes, sealed.size() - kNonceBytes,
          bytes_of(context), context.size(), nonce, bytes_.data()) != 0)
    return fail("cannot be decrypted: damaged, or sealed for another chunk or image");
  return {};
}

Bytes seal_context(const ChunkAddress &address, u32 raw_size, Codec codec) {
  return Writer().put(address.low).put(address.high).put(raw_size).put(codec).take();
}

}  // namespace ckpt::storage
