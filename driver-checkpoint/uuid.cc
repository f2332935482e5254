// SPDX-License-Identifier: Apache-2.0
#include "driver-checkpoint/uuid.h"

#include <charconv>

namespace ckpt::cuda {
namespace {
constexpr std::string_view kPrefix = "GPU-";
constexpr size_t kBytes = sizeof(CUuuid::bytes);

Failure not_a_uuid(std::string_view text) {
  return fail("\"{}\" is not the UUID of a device", text);
}
}  // namespace

std::string uuid_text(const CUuuid &uuid) {
  std::string text(kPrefix);
  for (size_t i = 0; i < kBytes; i++) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += fmt::format("{:02x}", static_cast<unsigned char>(uuid.bytes[i]));
  }
  return text;
}

Result<CUuuid> parse_uuid(std::string_view text) {
  std::string digits;
  for (char c : text.starts_with(kPrefix) ? text.substr(kPrefix.size()) : text)
    if (c != '-') digits += c;
  CUuuid uuid{};
  if (digits.size() != 2 * kBytes) return not_a_uuid(text);
  for (size_t i = 0; i < kBytes; i++) {
    unsigned char value = 0;
    const char *at = digits.data() + 2 * i;
    if (std::from_chars(at, at + 2, value, 16).ptr != at + 2) return not_a_uuid(text);
    uuid.bytes[i] = static_cast<char>(value);
  }
  return uuid;
}

}  // namespace ckpt::cuda
