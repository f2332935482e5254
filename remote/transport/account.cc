// SPDX-License-Identifier: Apache-2.0
#include "remote/transport/account.h"

#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "remote/transport/session_environment.h"

namespace ckpt::remote {
namespace {

std::optional<Account> account_in(const passwd *p) {
  if (!p) return std::nullopt;
  return Account{p->pw_name, p->pw_uid, p->pw_gid, p->pw_dir};
}

}  // namespace

std::optional<Account> account_of(uid_t uid) { return account_in(::getpwuid(uid)); }

std::optional<Account> account_named(const std::string &name) {
  return account_in(::getpwnam(name.c_str()));
}

Identity identity_of(uid_t uid) {
  std::optional<Account> account = account_of(uid);
  std::string user = account ? account->name : fmt::format("uid {}", uid);
  return {std::move(user), std::move(account)};
}

// A zero would end the name for the C library, so that one user is admitted and another one served.
Result<Identity> identity_named(const std::string &name) {
  auto odd = [](unsigned char c) { return c <= ' ' || c == 0x7f; };
  if (name.empty() || std::ranges::any_of(name, odd))
    return fail_with_hint("the certificate has no user's name",
                          "make one with ckpt-devd --make-user");
  return Identity{name, account_named(name)};
}

Result<> become(const Account &account, bool may_be_root) {
  if (::geteuid() != 0) return {};
  if (account.uid == 0 && !may_be_root)
    return fail_with_hint("a connection of another node never gives the rights of root",
                          "run the program as another user, with a certificate of that user if "
                          "certificates are used, or start ckpt-devd with --account");
  if (::initgroups(account.name.c_str(), account.group) < 0 || ::setgid(account.group) < 0 ||
      ::setuid(account.uid) < 0)
    return fail_errno("cannot become \"{}\"", account.name);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a change of user has cleared it (prctl(2))
  keep_environment_for_sessions();
  ::setenv("HOME", account.home.c_str(), 1);
  ::setenv("USER", account.name.c_str(), 1);
  return {};
}

}  // namespace ckpt::remote
