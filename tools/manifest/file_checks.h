// SPDX-License-Identifier: Apache-2.0
//
// The files that a program has open or mapped are not part of its image: a restore needs them
// unchanged. These are rows of the table in restorable.h.
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
// The names that the dump has given to unlinked files. Memory files are not among them, because the
// restore makes them.
void check_links(const ImageManifest &m, Reasons &reasons, const std::string &prefix = "");
// True for a file that grew since the dump and that the program has open for writing, but not only
// for appending.
bool has_grown(const ImageManifest::File &f);
// True for a file that the program has mapped shared, and that has grown since the dump: the
// mapping shows what it showed before.
bool has_grown_under_mapping(const ImageManifest::MappedFile &f);

// A hash of a file's contents, by which a change without a change of the size is found. None if the
// file cannot be read, or is larger than kMaxHashedBytes.
inline constexpr u64 kMaxHashedBytes = 16u << 20;
std::optional<u64> hash_of_file(const std::string &path);
// Nanoseconds since 1970.
i64 modification_time(const struct stat &st);

}  // namespace ckpt::tools
