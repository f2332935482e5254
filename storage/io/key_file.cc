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

// A pipe, as of a program that unlocks the key, has no other readers.
Result<> check_private(int fd, const std::string &path) {
  struct stat st {};
  if (::fstat(fd, &st) != 0) return fail_errno("cannot stat {}", path);
  if (!S_ISREG(st.st_mode)) return {};
  constexpr const char *kAnyway = ", or use the key as it is with --shared-key";
  if (st.st_uid != ::geteuid() && st.st_uid != 0)
    return fail_with_hint(fmt::format("the key file {} belongs to uid {}", path, st.st_uid),
                          std::string("make a key of your own") + kAnyway);
  if (st.st_mode & (S_IRWXG | S_IRWXO))
    return fail_with_hint(fmt::format("other users may access the key file {} (mode {:04o})", path,
                                      st.st_mode & 07777u),
                          fmt::format("chmod 600 {}{}", path, kAnyway));
  return {};
}

// The first bytes of the file, one more than a key with a newline has: enough to see that a file is
// too long.
Result<Bytes> read_start(const std::string &path, KeyAccess access) {
  UniqueFd fd(FileSystem::real().open(path.c_str(), O_RDONLY | O_NOCTTY));
  if (!fd) return fail_errno("cannot open the key file {}", path);
  if (access == KeyAccess::Private) CKPT_CHECK(check_private(fd.get(), path));
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

Result<Key> read_key(const std::string &path, KeyAccess access) {
  CKPT_TRY(Bytes file, read_start(path, access));
  if (file.size() == Key::kBytes) return Key::from_bytes(file);
  if (std::optional<Bytes> bytes = decode_hex(text(file))) return Key::from_bytes(*bytes);
  return fail_with_hint(fmt::format("{} is not a key: a key file has {} bytes or {} hex digits",
                                    path, Key::kBytes, kHexBytes),
                        "`(umask 077; head -c 32 /dev/urandom > FILE)` creates one");
}

}  // namespace ckpt::storage
