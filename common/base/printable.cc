// SPDX-License-Identifier: Apache-2.0
#include "common/base/printable.h"

#include <algorithm>

#include <fmt/format.h>

#include "common/base/bytes.h"

namespace ckpt {
namespace {

// The first code point of `text` and its length in bytes, which is 0 if it is not UTF-8.
struct CodePoint {
  u32 value;
  size_t length;
};
CodePoint first_code_point(std::string_view text) {
  u8 lead = static_cast<u8>(text[0]);
  size_t length = lead < 0x80 ? 1 : lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 0;
  if (length == 0 || lead > 0xf4 || text.size() < length) return {0, 0};
  u32 value = length == 1 ? lead : lead & (0x7fu >> length);
  for (size_t i = 1; i < length; ++i) {
    u8 next = static_cast<u8>(text[i]);
    if ((next & 0xc0) != 0x80) return {0, 0};
    value = value << 6 | (next & 0x3fu);
  }
  return {value, length};
}

bool is_harmless(u32 c) {
  bool control = c < 0x20 || (c >= 0x7f && c <= 0x9f);
  bool direction = c == 0x061c || (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
                   (c >= 0x2060 && c <= 0x206f) || c == 0xfeff;
  return !control && !direction;
}

std::string escaped(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    CodePoint c = first_code_point(text);
    size_t n = std::max<size_t>(c.length, 1);
    if (c.length > 0 && is_harmless(c.value))
      out += text.substr(0, n);
    else
      for (char byte : text.substr(0, n)) out += fmt::format("\\x{:02x}", static_cast<u8>(byte));
    text.remove_prefix(n);
  }
  return out;
}

bool is_letter_or_digit(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
}

}  // namespace

std::string printable(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) return escaped(text);
  // Do not cut within a character.
  while (max_bytes > 0 && (static_cast<u8>(text[max_bytes]) & 0xc0) == 0x80) --max_bytes;
  return escaped(text.substr(0, max_bytes)) + "...";
}

std::string printable_lines(std::string_view text) {
  constexpr std::string_view kItem = "\n  ";
  std::string out;
  for (size_t at; (at = text.find(kItem)) != text.npos; text.remove_prefix(at + kItem.size()))
    out += printable(text.substr(0, at)) + std::string(kItem);
  return out + printable(text);
}

std::string name_part(std::string_view text) {
  constexpr size_t kMaxBytes = 64;
  constexpr std::string_view kAllowed = "._+-";
  std::string name(text.substr(0, kMaxBytes));
  for (char &c : name)
    if (!is_letter_or_digit(c) && kAllowed.find(c) == kAllowed.npos) c = '_';
  if (name.empty() || name.front() == '.') name.insert(name.begin(), '_');
  return name;
}

}  // namespace ckpt
