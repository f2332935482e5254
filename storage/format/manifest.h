// SPDX-License-Identifier: Apache-2.0
//
// The manifest is a JSON object that the tools define. storage/ only bounds its size
// (kMaxManifestBytes) and its depth (kMaxManifestDepth), so that recursive code can process it.
#pragma once

#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "common/base/result.h"

namespace ckpt::storage {

// Replaces bytes that are not UTF-8, because file names may contain any bytes.
Result<std::string> encode_manifest(const nlohmann::json &manifest);
Result<nlohmann::json> parse_manifest(std::string_view text);

}  // namespace ckpt::storage
