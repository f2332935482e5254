// SPDX-License-Identifier: Apache-2.0
//
// What ckpt-fatbin does; each returns what goes to standard output.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "fatbin/summary.h"

namespace ckpt::tools {

// A page for a person; `all` names every kernel and variable.
std::string show_text(const std::string &path, const fatbin::Image &image,
                      const fatbin::Summary &summary, bool all);

// One line an entry, out of the headers alone.
std::string entries_text(const fatbin::Image &image);

// Everything, for programs; without `summary` what stands in the headers.
nlohmann::json show_json(const std::string &path, const fatbin::Image &image,
                         const fatbin::Summary *summary);

// Writes the payload of the entry "CONTAINER.ENTRY" to `fd`, decompressed.
Result<> extract_entry(const fatbin::Image &image, const std::string &name, u64 most, int fd);

// Writes every PTX to a file of its own in `folder`, which is made, and returns their names.
// Nothing that is there is written over.
Result<std::vector<std::string>> extract_ptx(const fatbin::Image &image, const std::string &folder,
                                             u64 most);

}  // namespace ckpt::tools
