// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "common/base/result.h"

namespace ckpt::remote {

// No value: this node has no such user.
std::optional<std::string> known_user_name(uid_t uid);
// The name of a local user; the number, if it has none.
std::string user_name(uid_t uid);
// Root's process becomes one of this local account, for good; any other process stays what it is.
// `may_be_root`: otherwise the account root is refused.
Result<> become(const std::string &account, bool may_be_root);

}  // namespace ckpt::remote
