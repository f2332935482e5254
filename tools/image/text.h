// SPDX-License-Identifier: Apache-2.0
//
// Printing what an image says. A manifest is hostile: any field may be missing or of another type,
// and any string may hold what a terminal acts upon. Nothing here throws.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include "common/base/bytes.h"

namespace ckpt::tools {

// UTF-8 passes; control characters, C1 controls and marks that turn the writing direction become
// \xNN, as do bytes that are not UTF-8.
std::string for_terminal(std::string_view text);

// The field of an object, as text for the terminal: strings as they are, anything else as JSON,
// cut after `most` characters. "" where there is no such field or `object` is none.
std::string field(const nlohmann::json &object, const char *name, size_t most = 2000);
std::string value_text(const nlohmann::json &value, size_t most = 2000);
// The field if it is an array, else an empty one.
const nlohmann::json &list_field(const nlohmann::json &object, const char *name);

std::string ratio_text(u64 raw, u64 stored);

}  // namespace ckpt::tools
