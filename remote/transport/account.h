// SPDX-License-Identifier: Apache-2.0
//
// The users of ckpt-devd and the accounts of its node.
//
// A uid is one thing and a name another: an account may have a name of digits, and a uid may have
// no name (those of user namespaces have none, subuid(5)). So no number is ever looked up as a
// name, and no name as a number.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>

#include "common/base/result.h"

namespace ckpt::remote {

struct Account {
  std::string name;
  uid_t uid = 0;
  gid_t group = 0;
  std::string home;
};
// No value: this node has no such account.
std::optional<Account> account_of(uid_t uid);
std::optional<Account> account_named(const std::string &name);

// The user at the other end of a connection, as the kernel, a certificate or munge says.
struct Identity {
  // As --allow and the limits have it: a name, or "uid 1000" of a user without one. No account and
  // no certificate has a name of this form.
  std::string user;
  std::optional<Account> account;  // of this node
};
Identity identity_of(uid_t uid);
// Of the name in a certificate.
Result<Identity> identity_named(const std::string &name);

// Root's process becomes one of this account, for good; any other process stays what it is.
// `may_be_root`: otherwise the account root is refused.
Result<> become(const Account &account, bool may_be_root);

}  // namespace ckpt::remote
