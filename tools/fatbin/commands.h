// SPDX-License-Identifier: Apache-2.0
//
// The commands of ckpt-fatbin. Those that return text or JSON leave printing to the caller.
#pragma once

#include <string>

#include <nlohmann/json.hpp>

#include "fatbin/summary.h"

namespace ckpt::tools {

// The default output, as text. `all` lists every kernel and variable, with whole names.
std::string show_text(const std::string &path, const fatbin::Image &image,
                      const fatbin::Summary &summary, bool all);

// One line for each entry, from the headers alone.
std::string entries_text(const fatbin::Image &image);

// The same for programs; without `summary` only what the headers contain.
nlohmann::json show_json(const std::string &path, const fatbin::Image &image,
                         const fatbin::Summary *summary);

// Writes the decompressed payload of the entry named "CONTAINER.ENTRY" to `fd`.
Result<> extract_entry(const fatbin::Image &image, const std::string &name, u64 max_bytes, int fd);

// Writes each PTX entry to a file of its own in `folder`, which is created if it does not exist,
// and returns the paths. An existing file is an error, never overwritten.
Result<std::vector<std::string>> extract_ptx(const fatbin::Image &image, const std::string &folder,
                                             u64 max_bytes);

}  // namespace ckpt::tools
