// SPDX-License-Identifier: Apache-2.0
//
// The files that a program has open or mapped are not part of its image: a restore needs them
// unchanged. ckpt-restore checks them before it starts anything, and ckpt-dump while the program is
// stopped, before it ends the program.
#pragma once

#include <sys/stat.h>

#include <optional>
#include <string>

#include "tools/manifest/file_growth.h"
#include "tools/manifest/image_manifest.h"
#include "tools/reasons.h"

namespace ckpt::tools {

// `prefix`: what the program's paths begin with here (prefix_of_files in process_root.h).
void check_files(const ImageManifest &m, const GrownFiles &grown, Reasons &reasons,
                 const std::string &prefix = "");
void check_mapped_files(const ImageManifest &m, Reasons &reasons, const std::string &prefix = "");
// Both checks, for a dump: a program must not be ended if its image could not be restored. The
// program must be stopped, because it changes its files.
Result<> check_restorable(const nlohmann::json &manifest, const std::string &prefix);
// True for a file that grew since the dump and that the program has open for writing, but not only
// for appending.
bool has_grown(const ImageManifest::File &f);

// A hash of a file's contents, by which a change without a change of the size is found. None if the
// file cannot be read, or is larger than kMaxHashedBytes.
inline constexpr u64 kMaxHashedBytes = 16u << 20;
std::optional<u64> hash_of_file(const std::string &path);
// Nanoseconds since 1970.
i64 modification_time(const struct stat &st);

}  // namespace ckpt::tools
