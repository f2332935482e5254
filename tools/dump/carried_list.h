// SPDX-License-Identifier: Apache-2.0
//
// What an image would carry of a running program (ckpt-dump --check --with-files).
#pragma once

#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "tools/dump/carried_choice.h"
#include "tools/manifest/manifest.h"

namespace ckpt::tools {

struct CarriedList {
  struct LeftOut {
    std::string path, why;
  };
  std::vector<manifest::CarriedFile> files;  // no image has their contents
  std::vector<LeftOut> left_out;
  u64 bytes() const;

  // `hashed`: with their hashes, for the checks of another machine.
  static Result<CarriedList> of(const CarriedChoice &choice, const DescriptorTable &table,
                                bool hashed);
};

nlohmann::json as_json(const CarriedList &list);
void print_carried(const CarriedList &list);

}  // namespace ckpt::tools
