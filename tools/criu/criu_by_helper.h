// SPDX-License-Identifier: Apache-2.0
//
// CRIU as a child of ckpt-helper, or, for root's tools, of a process that does the same.
#pragma once

#include <sys/types.h>

#include "common/base/result.h"
#include "common/base/unique_fd.h"
#include "helper/protocol.h"
#include "tools/criu/criu.h"
#include "tools/criu/rights.h"

namespace ckpt::tools {

// A connection with the helper. With Way::ForUser this starts a process, which needs root.
Result<UniqueFd> connect_helper(const CriuRights &rights, const Criu &criu);

// Whether a main function was called to be that process (helper::serve_starter).
bool is_helper(int argc, const char *const *argv);

struct HelperRun {
  pid_t pid = 0;     // of CRIU (a dump) or of the stem (a restore)
  UniqueFd streams;  // to CRIU; invalid if it has ended before it connected
};

// Sends the request. Then `connection` carries helper::Event's.
Result<HelperRun> request_run(int connection, const helper::Request &request);

// Whether ckpt-helper lets users restore lazily. The error says why not.
Result<> ask_for_lazy();
// After helper::Event::Started of a restore with helper::kLazy: the userfaultfd of a process of the
// restored program.
Result<UniqueFd> ask_for_userfaultfd(int connection, pid_t process);
// From then on the connection carries helper::Event's again.
Result<> ask_no_more(int connection);

// Copies of descriptors, for a request.
std::vector<helper::Inherited> copies_of(const std::vector<std::pair<int, u64>> &descriptors);

// Switches this process permanently to the program's user, and drops references to root's own
// files, such as root's runtime folder.
Result<> become_user(const helper::Identity &user);

}  // namespace ckpt::tools
