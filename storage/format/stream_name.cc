// SPDX-License-Identifier: Apache-2.0
#include "storage/format/stream_name.h"

#include <algorithm>

#include "common/base/printable.h"
#include "storage/format/format.h"

namespace ckpt::storage {
namespace {

bool is_plain(char c) { return c >= 0x20 && c <= 0x7e; }

bool is_safe_component(std::string_view c) { return !c.empty() && c != "." && c != ".."; }

}  // namespace

Result<> check_stream_name(std::string_view name) {
  if (name.empty() || name.size() > kMaxNameBytes)
    return fail("a stream name has {} bytes; it must have 1 to {}", name.size(), kMaxNameBytes);
  bool plain =
      std::all_of(name.begin(), name.end(), [](char c) { return is_plain(c) && c != '\\'; });
  if (!plain)
    return fail("stream name '{}' contains a character that is not allowed", printable(name));
  for (size_t at = 0; at <= name.size();) {
    size_t end = std::min(name.find('/', at), name.size());
    if (!is_safe_component(name.substr(at, end - at)))
      return fail("stream name '{}' is not a plain relative path", printable(name));
    at = end + 1;
  }
  return {};
}

}  // namespace ckpt::storage
