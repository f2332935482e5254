// SPDX-License-Identifier: Apache-2.0
//
// Files that are written at names which others can know. In a folder that others may write to, such
// as /tmp, the name may be taken before: by a link to a file of ours, a FIFO, or a file that
// another user keeps open. The kernel's own rules (protected_symlinks and the like of
// proc_sys_fs(5)) are often off, so nothing here relies on them.
#pragma once

#include <string>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt {

// Copies what is left to read from `from` into a new file of mode 0600, which then gets the name
// `path`. What had that name, a link too, is replaced and not written to.
Result<> copy_to_new_file(int from, const std::string &path);
// The same, with a name that cannot be known before: `prefix`, six random characters, `suffix`.
// Returns the name.
Result<std::string> copy_to_unique_file(int from, const std::string &prefix,
                                        const std::string &suffix);

// Opens the file that a user has named for output, and creates it if it is missing. `flags`:
// O_APPEND or O_TRUNC. Refuses what another user could have put there: a link or a file that
// belongs neither to us nor to root, and a file of ours that has other names.
Result<UniqueFd> open_output(const std::string &path, int flags, mode_t mode);

}  // namespace ckpt
