// SPDX-License-Identifier: Apache-2.0
//
// Carried files (manifest/carried_files.h), as ckpt-dump --with-files writes them into an image.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "storage/write/image_writer.h"
#include "tools/dump/carried_choice.h"
#include "tools/manifest/manifest.h"

namespace ckpt::tools {

// Leaves those carried files that are as the rest of the manifest describes them.
void leave_out_undescribed(manifest::Manifest &m);

class CarriedFiles {
 public:
  CarriedFiles(CarriedChoice choice, storage::ImageWriter &image)
      : choice_(std::move(choice)), image_(image) {}
  // Those that were not looked at yet. Before the program is paused, because it may be much; and
  // once more when it is stopped.
  Result<> save(const DescriptorTable &table);
  // Those that are as they were when they were saved.
  void describe(manifest::Manifest &m) const;

 private:
  Result<> save(const std::string &path, int fd, const struct stat &st);

  CarriedChoice choice_;
  storage::ImageWriter &image_;
  std::set<std::string> seen_;
  std::vector<manifest::CarriedFile> saved_;
};

}  // namespace ckpt::tools
