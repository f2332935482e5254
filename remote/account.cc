// SPDX-License-Identifier: Apache-2.0
#include "remote/account.h"

#include <grp.h>
#include <pwd.h>
#include <signal.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <cstdlib>

namespace ckpt::remote {

std::string user_name(uid_t uid) {
  const passwd *p = ::getpwuid(uid);
  return p ? p->pw_name : std::to_string(uid);
}

Result<> become(const std::string &account, bool may_be_root) {
  if (::geteuid() != 0) return {};
  const passwd *p = ::getpwnam(account.c_str());
  if (!p)
    return fail_with_hint(fmt::format("this node has no account \"{}\"", account),
                          "make one, or start ckpt-devd with --account");
  if (p->pw_uid == 0 && !may_be_root)
    return fail_with_hint("a certificate never gives the rights of root",
                          "make a certificate for another user, or start ckpt-devd with --account");
  if (::initgroups(p->pw_name, p->pw_gid) < 0 || ::setgid(p->pw_gid) < 0 || ::setuid(p->pw_uid) < 0)
    return fail_errno("cannot become \"{}\"", account);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // a change of user has cleared it (prctl(2))
  ::setenv("HOME", p->pw_dir, 1);
  ::setenv("USER", p->pw_name, 1);
  return {};
}

}  // namespace ckpt::remote
