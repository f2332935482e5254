// SPDX-License-Identifier: Apache-2.0
#include "storage/format/uuid.h"

#include <sys/random.h>

namespace ckpt::storage {

Result<> fill_random(void *data, size_t size) {
  if (::getrandom(data, size, 0) != static_cast<ssize_t>(size))
    return fail_errno("cannot get random bytes");
  return {};
}

Result<Uuid> random_uuid() {
  Uuid uuid;
  CKPT_CHECK(fill_random(uuid.data(), uuid.size()));
  uuid[6] = static_cast<u8>((uuid[6] & 0x0f) | 0x40);  // version 4 (RFC 4122, section 4.1.3)
  uuid[8] = static_cast<u8>((uuid[8] & 0x3f) | 0x80);  // the variant of RFC 4122 (section 4.1.1)
  return uuid;
}

std::string uuid_text(const Uuid &uuid) {
  std::string out;
  for (size_t i = 0; i < uuid.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) out += '-';
    out += fmt::format("{:02x}", uuid[i]);
  }
  return out;
}

}  // namespace ckpt::storage
