// SPDX-License-Identifier: Apache-2.0
#include "common/base/named_user.h"

#include <doctest/doctest.h>
#include <pwd.h>

#include <map>

using namespace ckpt;

namespace {

std::map<std::string, uid_t> g_accounts;  // empty: the machine's

}  // namespace

// In place of the C library's, so that an account can have a name of digits.
extern "C" struct passwd *getpwnam(const char *name) {
  static passwd entry{};
  auto found = g_accounts.find(name);
  if (found == g_accounts.end()) return nullptr;
  entry.pw_uid = found->second;
  return &entry;
}

TEST_CASE("a number is a uid and never a name, a name never a number") {
  g_accounts = {{"ada", 1000}, {"1000", 7}, {"12ab", 12}};
  CHECK(named_user("ada") == 1000u);
  CHECK(named_user("1000") == 1000u);
  CHECK(named_user("4711") == 4711u);  // without an account
  CHECK(named_user("0") == 0u);
  CHECK(named_user("12ab") == 12u);
}

TEST_CASE("no user") {
  g_accounts = {{"ada", 1000}};
  for (const char *text : {"", "bob", "-1", "+5", " 5", "5 ", "4294967295", "4294967296", "1e3"}) {
    CAPTURE(text);
    CHECK(!named_user(text));
  }
  CHECK(named_user("4294967294") == 4294967294u);
}
