// SPDX-License-Identifier: Apache-2.0
#include "tools/image/text.h"

#include <fmt/format.h>

namespace ckpt::tools {
namespace {

using nlohmann::json;

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

}  // namespace

std::string for_terminal(std::string_view text) {
  std::string out;
  while (!text.empty()) {
    CodePoint c = first_code_point(text);
    bool pass = c.length > 0 && is_harmless(c.value);
    size_t n = std::max<size_t>(c.length, 1);
    if (pass) out += text.substr(0, n);
    for (size_t i = 0; !pass && i < n; ++i)
      out += fmt::format("\\x{:02x}", static_cast<u8>(text[i]));
    text.remove_prefix(n);
  }
  return out;
}

std::string value_text(const json &value, size_t max_bytes) {
  const std::string *s = value.get_ptr<const std::string *>();
  std::string raw = s ? *s : value.dump(-1, ' ', false, json::error_handler_t::replace);
  if (raw.size() <= max_bytes) return for_terminal(raw);
  // Do not cut within a character.
  while (max_bytes > 0 && (static_cast<u8>(raw[max_bytes]) & 0xc0) == 0x80) --max_bytes;
  return for_terminal(raw.substr(0, max_bytes)) + "...";
}

std::string field(const json &object, const char *name, size_t max_bytes) {
  if (!object.is_object()) return "";
  auto it = object.find(name);
  return it == object.end() || it->is_null() ? "" : value_text(*it, max_bytes);
}

const json &list_field(const json &object, const char *name) {
  static const json empty = json::array();
  if (!object.is_object()) return empty;
  auto it = object.find(name);
  return it != object.end() && it->is_array() ? *it : empty;
}

std::string ratio_text(u64 raw, u64 stored) {
  if (stored == 0) return "-";
  return fmt::format("{:.1f}", static_cast<double>(raw) / static_cast<double>(stored));
}

}  // namespace ckpt::tools
