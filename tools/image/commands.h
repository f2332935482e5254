// SPDX-License-Identifier: Apache-2.0
//
// What ckpt-image does; each returns what goes to standard output, or an exit code.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "storage/read/image_reader.h"

namespace ckpt::tools {

// A page for a person.
std::string show_text(const storage::ImageReader &image, bool streams);
// Everything, for programs: {"format_version", "uuid", "manifest", "chunks": {…}, "streams": […]}.
nlohmann::json show_json(const storage::ImageReader &image);

// Copies an image, with all that it uses of its parents, to a folder or (kPipeImage) to standard
// output.
Result<> flatten(const storage::ImageReader &image, const std::string &to, bool overwrite,
                 const storage::Key *key);
// Keeps the newest images of a chain, and says which.
Result<> prune(const std::string &image, size_t keep, bool json, const storage::Key *key);

// Writes one stream's bytes to `fd`.
Result<> extract(const storage::ImageReader &image, const std::string &stream, int fd);

// Reads and checks every byte; says how it went. 0: whole, 1: damaged.
int verify(const storage::ImageReader &image, bool quiet, bool json);

struct Difference {
  nlohmann::json json;
  std::string text;
  bool same = false;
};
Result<Difference> diff(const storage::ImageReader &a, const storage::ImageReader &b);

}  // namespace ckpt::tools
