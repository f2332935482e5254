// SPDX-License-Identifier: Apache-2.0
#include "tools/node_file.h"

#include <nlohmann/json.hpp>

#include "common/base/json_fields.h"
#include "tools/text_file.h"

namespace ckpt::tools {

using nlohmann::json;

Result<schedule::Bandwidths> read_bandwidths(const std::string &path) {
  CKPT_TRY(std::string text, contents_of(path));
  json node = json::parse(text, nullptr, /*allow_exceptions=*/false);
  const json &figures = json_member(node, "bandwidths");
  if (!figures.is_object())
    return fail_with_hint(fmt::format("{} is not the output of ckpt-node-bench", path),
                          "ckpt-node-bench > NODE.json makes it");
  schedule::Bandwidths b;
  for (auto [name, value] : {std::pair{"core", &b.core},
                             {"cpu", &b.cpu},
                             {"memory", &b.memory},
                             {"link", &b.link},
                             {"copy", &b.copy}}) {
    const json &figure = json_member(figures, name);
    if (!figure.is_number() || figure.get<double>() <= 0)
      return fail("{}: the bandwidth {:?} is missing", path, name);
    *value = figure.get<double>();
  }
  return b;
}

}  // namespace ckpt::tools
