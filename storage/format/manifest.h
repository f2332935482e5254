// SPDX-License-Identifier: Apache-2.0
//
// The manifest is JSON that the tools own; storage only bounds it. It is an object of at most
// kMaxManifestBytes and kMaxManifestDepth levels, so that whoever walks it may recurse.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "common/base/result.h"

namespace ckpt::storage {

// Bytes that are not UTF-8 (file names may be anything) are replaced.
Result<std::string> encode_manifest(const nlohmann::json &manifest);
Result<nlohmann::json> parse_manifest(std::string_view text);

}  // namespace ckpt::storage
