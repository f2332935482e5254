// SPDX-License-Identifier: Apache-2.0
//
// Carried files (ckpt-dump --with-files): files that the program has mapped or open for reading
// alone, and that the image therefore contains. A restore supplies those that are missing here or
// differ: it writes them into the folder of its session, below files/, and CRIU opens them there.
// All others are used where they are.
//
// They are not mounted at their paths. A mount point vanishes as soon as a file is renamed onto it
// in another mount namespace (detach_mounts() of the kernel's fs/namespace.c), as every package
// manager does; programs that the restored one starts would run with its old libraries; and a
// user without rights could not have them.
#pragma once

#include <optional>
#include <string>

#include "common/base/result.h"
#include "storage/read/image_reader.h"
#include "tools/manifest/image_manifest.h"
#include "tools/reasons.h"

namespace ckpt::tools {

// Where a restore supplies the carried file with this number: in `session`, below a folder of the
// file's own, because a program that was restored before may have two files of one name.
std::string supplied_path(const std::string &session, size_t number, const std::string &path);
// True for a path that supplied_path() makes. The folder of its session is removed at the end of
// the program, so every dump has to carry the file.
bool is_supplied(const std::string &path);
// The path that the program has started with; any other path is returned as it is.
std::string original_path(const std::string &path);

// The XXH3-64 of the whole file, which may be large. None if it cannot be read.
std::optional<u64> hash_of_contents(int fd);

// The paths of the carried files that are missing here or differ. The calling thread opens files
// with the rights of the program's user (AsUser).
std::set<std::string> files_to_supply(const ImageManifest &m);

// Carried files without contents in the image.
void check_carried_contents(const ImageManifest &m, const storage::ImageReader &image,
                            Reasons &reasons);

// False: a path leads out of a folder, or is of no file that the program has.
bool plausible_carried(const ImageManifest &m);

}  // namespace ckpt::tools
