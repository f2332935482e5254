// SPDX-License-Identifier: Apache-2.0
//
// Text from untrusted input, made safe for a terminal. In a manifest any field may be missing or of
// another type, and any string may contain a terminal's control sequences. Nothing here throws.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "common/base/bytes.h"
#include "common/base/printable.h"  // IWYU pragma: export

namespace ckpt::tools {

// A field of an object as text for a terminal, cut after `max_bytes`. Strings are not quoted; other
// values are printed as JSON. "" if `object` has no such field or is not an object.
std::string field(const nlohmann::json &object, const char *name, size_t max_bytes = 2000);
std::string value_text(const nlohmann::json &value, size_t max_bytes = 2000);

std::string ratio_text(u64 raw, u64 stored);

}  // namespace ckpt::tools
