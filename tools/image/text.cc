// SPDX-License-Identifier: Apache-2.0
#include "tools/image/text.h"

#include <fmt/format.h>

#include "common/base/json_fields.h"

namespace ckpt::tools {

using nlohmann::json;

std::string value_text(const json &value, size_t max_bytes) {
  const std::string *s = value.get_ptr<const std::string *>();
  std::string raw = s ? *s : value.dump(-1, ' ', false, json::error_handler_t::replace);
  return printable(raw, max_bytes);
}

std::string field(const json &object, const char *name, size_t max_bytes) {
  const json &value = json_member(object, name);
  return value.is_null() ? "" : value_text(value, max_bytes);
}

std::string ratio_text(u64 raw, u64 stored) {
  if (stored == 0) return "-";
  return fmt::format("{:.1f}", static_cast<double>(raw) / static_cast<double>(stored));
}

}  // namespace ckpt::tools
