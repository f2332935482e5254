// SPDX-License-Identifier: Apache-2.0
#include "storage/format/manifest.h"

#include <nlohmann/json.hpp>

#include "common/base/json_depth.h"
#include "storage/format/format.h"

namespace ckpt::storage {

using nlohmann::json;

Result<std::string> encode_manifest(const json &manifest) {
  std::string out = manifest.dump(-1, ' ', false, json::error_handler_t::replace);
  CKPT_CHECK(parse_manifest(out));  // never write what a reader would reject
  return out;
}

Result<json> parse_manifest(std::string_view text) {
  if (text.size() > kMaxManifestBytes)
    return fail("the manifest has {} bytes; the limit is {}", text.size(), kMaxManifestBytes);
  if (json_depth(text) > kMaxManifestDepth)
    return fail("the manifest is nested deeper than {} levels", kMaxManifestDepth);
  json out = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!out.is_object()) return fail("the manifest is not a JSON object");
  return out;
}

}  // namespace ckpt::storage
