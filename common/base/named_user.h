// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

namespace ckpt {

// The user that an option or a setting names. Digits alone are a uid, whether it has an account or
// not, and are never looked up as a name: an account may have a name of digits. All other text is a
// name. No value: there is no such user.
std::optional<uid_t> named_user(const std::string &text);

}  // namespace ckpt
