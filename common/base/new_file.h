// SPDX-License-Identifier: Apache-2.0
//
// Files that are written under names which other users can predict. In a folder that others may
// write to, such as /tmp, another user may create that name first: as a link to a file of ours, a
// FIFO, or a file that stays open. The kernel's own rules (protected_symlinks and the like of
// proc_sys_fs(5)) are often off, so nothing here relies on them.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>

#include "common/base/result.h"
#include "common/base/unique_fd.h"

namespace ckpt {

// Copies the unread rest of `from` into a new file of mode 0600, which then gets the name `path`.
// An existing file or link of that name is replaced, not written to.
Result<> copy_to_new_file(int from, const std::string &path);
// The same, with a name that cannot be predicted: `prefix`, six random characters, `suffix`.
// Returns the name.
Result<std::string> copy_to_unique_file(int from, const std::string &prefix,
                                        const std::string &suffix);

// Writes a new file of this mode under a name that cannot be predicted, and renames it to `path`,
// so that a reader of `path` sees the old text or the new one. An existing file or link of that
// name is replaced, not written to.
Result<> replace_file(const std::string &path, std::string_view text, mode_t mode);

// Opens the file that a user has named for output, and creates it if it is missing. `flags`:
// O_APPEND or O_TRUNC. Refuses files that another user could have put there: a link or a file that
// belongs neither to us nor to root, and a file of ours that has other names.
Result<UniqueFd> open_output(const std::string &path, int flags, mode_t mode);

}  // namespace ckpt
