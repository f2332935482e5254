// SPDX-License-Identifier: Apache-2.0
//
// As root, in processes of their own.
#include "common/base/as_user.h"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "common/base/unique_fd.h"

using namespace ckpt;

namespace {

constexpr uid_t kUser = 61234;

struct RootsFile {
  std::string path = "/tmp/ckpt-as-user-XXXXXX";
  RootsFile() { ::close(::mkstemp(path.data())); }
  ~RootsFile() { ::unlink(path.c_str()); }
  bool opens() const { return static_cast<bool>(UniqueFd(::open(path.c_str(), O_RDONLY))); }
};

bool holds_in_child(const std::function<bool()> &holds) {
  pid_t child = ::fork();
  if (child == 0) ::_exit(holds() ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

// A tool of a user that has a capability.
bool become_user_with(int capability) {
  __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
  u32 set = 1u << capability;
  __user_cap_data_struct data[2]{{set, set, 0}, {0, 0, 0}};
  return ::prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0) == 0 && ::setresgid(kUser, kUser, kUser) == 0 &&
         ::setresuid(kUser, kUser, kUser) == 0 && ::syscall(SYS_capset, &header, data) == 0;
}

}  // namespace

TEST_CASE("root opens no file as a user that the user could not" *
          doctest::skip(::geteuid() != 0)) {
  RootsFile file;
  CHECK(holds_in_child([&] {
    bool during = false;
    {
      AsUser as({kUser, kUser, {}});
      during = as.active() && !file.opens();
    }
    return during && file.opens();
  }));
}

TEST_CASE("a user's tool with a capability for files opens none by it" *
          doctest::skip(::geteuid() != 0)) {
  RootsFile file;
  for (int capability : {CAP_DAC_OVERRIDE, CAP_DAC_READ_SEARCH})
    CHECK(holds_in_child([&] {
      bool before = become_user_with(capability) && file.opens(), during = false;
      {
        AsUser as({kUser, kUser, {}});
        during = as.active() && !file.opens();
      }
      return before && during && file.opens();
    }));
}
