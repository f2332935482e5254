// SPDX-License-Identifier: Apache-2.0
//
// ckpt-restore --truncate-files and --truncate-file. A file is cut when everything else of the
// restore that can fail before the program runs has been done, and through the descriptor that the
// restored program has for writing: it could do the same. Nothing is cut by a path, which may lead
// elsewhere by now. Nor is a file cut that another program has opened for writing since the checks.
#pragma once

#include <sys/types.h>

#include "tools/manifest/file_growth.h"

namespace ckpt::tools {

// With GrownFiles::AppendOutput: names the files of which a part is written again.
void warn_of_results(const ImageManifest &m, const GrownFiles &grown);

// `root` and its descendants are stopped.
Result<> truncate_grown_files(pid_t root, const ImageManifest &m, const GrownFiles &grown);

}  // namespace ckpt::tools
