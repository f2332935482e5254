// SPDX-License-Identifier: Apache-2.0
//
// The capabilities that this process and CRIU have; as root, in processes of their own.
#include "helper/identity.h"

#include <doctest/doctest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/proc/status.h"

using namespace ckpt;
using namespace ckpt::helper;

namespace {

bool holds_in_child(bool (*holds)()) {
  pid_t child = ::fork();
  if (child == 0) ::_exit(holds() ? 0 : 1);
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

proc::Status own() { return proc::read_status(::getpid()).value(); }

constexpr u64 kFiles = bit_of(CAP_DAC_OVERRIDE), kRestore = bit_of(CAP_CHECKPOINT_RESTORE);

bool is_root() {
  return ::geteuid() == 0 && (own_capabilities() & kFiles) && (own_capabilities() & kRestore);
}

}  // namespace

TEST_CASE("CRIU gets what it needs of the tool's capabilities, and none for files" *
          doctest::skip(!is_root())) {
  CHECK(holds_in_child([] {
    Identity user{{1000, 1000, {}}};
    user.bounding = own().bounding;
    if (!become(user, kFiles | kRestore) || own().ambient != (kFiles | kRestore)) return false;
    bool passed = pass_on_only(kRestore);
    proc::Status s = own();
    return passed && s.ambient == kRestore && s.inheritable == kRestore && s.permitted == kRestore;
  }));
}

TEST_CASE("a capability at hand is in force only meanwhile" * doctest::skip(!is_root())) {
  CHECK(holds_in_child([] {
    bool kept = keep_only(kFiles | kRestore, kFiles);
    bool before = own().effective == kRestore && own().permitted == (kFiles | kRestore);
    bool during = false;
    {
      WithCapability files(CAP_DAC_OVERRIDE);
      during = own().effective == (kFiles | kRestore);
    }
    return kept && before && during && own().effective == kRestore;
  }));
}

TEST_CASE("an identity keeps its value as text") {
  Identity user{{1000, 100, {4, 24, 27}}};
  Result<Identity> read = identity_from(to_text(user));
  REQUIRE(read);
  CHECK(read->uid == 1000);
  CHECK(read->gid == 100);
  CHECK(read->groups == std::vector<gid_t>{4, 24, 27});
  for (const char *text : {"", "1000", "1000:", "x:1", "1000:100:x"}) CHECK(!identity_from(text));
}
