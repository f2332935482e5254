// SPDX-License-Identifier: Apache-2.0
//
// The small files in a session's folder (session_folder.h), as a tool reads them. The folder
// belongs to the user of the program. To a tool of root its contents are a claim, never a fact:
// what they say is compared with what the kernel says, and any of them may be a link, a FIFO or
// endless.
#pragma once

#include <sys/types.h>

#include <string>
#include <string_view>
#include <vector>

#include "common/base/as_user.h"
#include "common/base/result.h"

namespace ckpt::tools {

// The first kilobytes of a regular file. A link is not followed, and a FIFO is not waited for.
Result<std::string> read_session_file(const std::string &folder, std::string_view name);
// Removes the name, with the rights of the keeper's user.
void remove_session_file(const Credentials &user, const std::string &folder, std::string_view name);

// The positive numbers at the beginning of the text.
std::vector<pid_t> pids_in(const std::string &text);

}  // namespace ckpt::tools
