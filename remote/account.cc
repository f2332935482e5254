// SPDX-License-Identifier: Apache-2.0
#include "remote/account.h"

#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdlib>

#include "remote/session_environment.h"

namespace ckpt::remote {

std::optional<std::string> known_user_name(uid_t uid) {
  const passwd *p = ::getpwuid(uid);
  return p ? std::optional<std::string>(p->pw_name) : std::nullopt;
}

std::string user_name(uid_t uid) { return known_user_name(uid).value_or(std::to_string(uid)); }

Result<> become(const std::string &account, bool may_be_root) {
  if (::geteuid() != 0) return {};
  const passwd *p = ::getpwnam(account.c_str());
  if (!p)
    return fail_with_hint(fmt::format("this node has no account \"{}\"", account),
                          "make one, or start ckpt-devd with --account");
  if (p->pw_uid == 0 && !may_be_root)
    return fail_with_hint("a connection of another node never gives the rights of root",
                          "run the program as another user, with a certificate of that user if "
                          "certificates are used, or start ckpt-devd with --account");
  if (::initgroups(p->pw_name, p->pw_gid) < 0 || ::setgid(p->pw_gid) < 0 || ::setuid(p->pw_uid) < 0)
    return fail_errno("cannot become \"{}\"", account);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a change of user has cleared it (prctl(2))
  keep_environment_for_sessions();
  ::setenv("HOME", p->pw_dir, 1);
  ::setenv("USER", p->pw_name, 1);
  return {};
}

}  // namespace ckpt::remote
