// SPDX-License-Identifier: Apache-2.0
//
// Small files on a disk that the program has mapped shared and can write, such as the table of a
// JVM in /tmp/hsperfdata_USER or the shared memory of a database. The image has their contents,
// because such a file may vanish: a cleaner or the next program of that kind removes it, and
// another machine never had it. A restore makes those again that are missing, and changes none.
// Memory files (memory_files.h) are not among them.
#pragma once

#include <nlohmann/json.hpp>

#include "storage/write/image_writer.h"
#include "tools/session/target.h"

namespace ckpt::tools {

// While the program is stopped. Returns what the manifest says about these files.
Result<nlohmann::json> save_kept_files(const Target &target, storage::ImageWriter &image);

}  // namespace ckpt::tools
