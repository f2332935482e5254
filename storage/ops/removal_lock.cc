// SPDX-License-Identifier: Apache-2.0
#include "storage/ops/removal_lock.h"

#include <sys/file.h>

namespace ckpt::storage {

Result<UniqueFd> lock_for_removal(FileSystem &fs, const std::string &path) {
  CKPT_TRY(UniqueFd folder, open_folder(fs, path));
  // Without locks (some network file systems), dumps hold none either.
  if (::flock(folder.get(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK)
    return fail_with_hint(path + " is the parent of a dump in progress",
                          "try again when that dump has finished");
  return folder;
}

}  // namespace ckpt::storage
