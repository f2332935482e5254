// SPDX-License-Identifier: Apache-2.0
#include "storage/io/key_file.h"

#include <fcntl.h>
#include <sodium.h>
#include <unistd.h>

#include <optional>

#include "storage/io/file_system.h"

namespace ckpt::storage {
namespace {

constexpr size_t kHexBytes = 2 * Key::kBytes;

// The first bytes of the file, one more than a key with a newline has: enough to see that a file is
// too long.
Result<Bytes> read_start(const std::string &path) {
  UniqueFd fd(FileSystem::real().open(path.c_str(), O_RDONLY | O_NOCTTY));
  if (!fd) return fail_errno("cannot open the key file {}", path);
  Bytes bytes(kHexBytes + 2);
  size_t n = 0;
  while (n < bytes.size()) {
    ssize_t got = ::read(fd.get(), bytes.data() + n, bytes.size() - n);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return fail_errno("cannot read the key file {}", path);
    if (got == 0) break;
    n += static_cast<size_t>(got);
  }
  bytes.resize(n);
  return bytes;
}

std::optional<Bytes> decode_hex(std::string_view hex) {
  if (hex.ends_with('\n')) hex.remove_suffix(1);
  if (hex.size() != kHexBytes) return std::nullopt;
  Bytes bytes(Key::kBytes);
  size_t n = 0;
  int rc = ::sodium_hex2bin(reinterpret_cast<u8 *>(bytes.data()), bytes.size(), hex.data(),
                            hex.size(), nullptr, &n, nullptr);
  return rc == 0 && n == bytes.size() ? std::optional(bytes) : std::nullopt;
}

}  // namespace

Result<Key> read_key(const std::string &path) {
  CKPT_TRY(Bytes file, read_start(path));
  if (file.size() == Key::kBytes) return Key::from_bytes(file);
  if (std::optional<Bytes> bytes = decode_hex(text(file))) return Key::from_bytes(*bytes);
  return fail_with_hint(fmt::format("{} is not a key: a key file has {} bytes or {} hex digits",
                                    path, Key::kBytes, kHexBytes),
                        "`head -c 32 /dev/urandom > FILE` creates one");
}

}  // namespace ckpt::storage
