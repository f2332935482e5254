// SPDX-License-Identifier: Apache-2.0
#include "common/base/named_user.h"

#include <pwd.h>

#include <charconv>

namespace ckpt {

std::optional<uid_t> named_user(const std::string &text) {
  constexpr uid_t kNoUser = static_cast<uid_t>(-1);  // chown(2)
  if (text.empty()) return std::nullopt;
  if (text.find_first_not_of("0123456789") != text.npos) {
    const passwd *entry = ::getpwnam(text.c_str());
    return entry ? std::optional(entry->pw_uid) : std::nullopt;
  }
  uid_t uid = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), uid);
  return error == std::errc() && uid != kNoUser ? std::optional(uid) : std::nullopt;
}

}  // namespace ckpt
