// SPDX-License-Identifier: Apache-2.0
#include "storage/format/manifest.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "storage/format/format.h"

namespace ckpt::storage {

using nlohmann::json;

namespace {

// The depth to which arrays and objects of a JSON text are nested, or more if the text is not JSON.
// Counted before the parser runs: its own callback costs time in proportion to the number of
// values already in the list (nlohmann 3.11, json_sax_dom_callback_parser::end_object), so a list
// of n objects took n² steps.
int depth_of(std::string_view text) {
  int depth = 0, deepest = 0;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    char c = text[i];
    if (c == '"') in_string = !in_string;
    if (in_string && c == '\\') ++i;  // the next character is a part of the string
    if (in_string) continue;
    if (c == '[' || c == '{') deepest = std::max(deepest, ++depth);
    if (c == ']' || c == '}') --depth;
  }
  return deepest;
}

}  // namespace

Result<std::string> encode_manifest(const json &manifest) {
  std::string out = manifest.dump(-1, ' ', false, json::error_handler_t::replace);
  CKPT_CHECK(parse_manifest(out));  // never write what a reader would reject
  return out;
}

Result<json> parse_manifest(std::string_view text) {
  if (text.size() > kMaxManifestBytes)
    return fail("the manifest has {} bytes; the limit is {}", text.size(), kMaxManifestBytes);
  if (depth_of(text) > kMaxManifestDepth)
    return fail("the manifest is nested deeper than {} levels", kMaxManifestDepth);
  json out = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!out.is_object()) return fail("the manifest is not a JSON object");
  return out;
}

}  // namespace ckpt::storage
