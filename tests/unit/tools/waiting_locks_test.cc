// SPDX-License-Identifier: Apache-2.0
#include "tools/restore/waiting_locks.h"

#include <doctest/doctest.h>

namespace ckpt::test {
using namespace tools;

TEST_CASE("/proc/locks: who waits for whom") {
  std::vector<LockWait> all = waits_in(
      "1: POSIX  ADVISORY  WRITE 699 00:19:1055 0 EOF\n"
      "2: FLOCK  ADVISORY  WRITE 812 08:01:4711 0 EOF\n"
      "2: -> FLOCK  ADVISORY  WRITE 900 08:01:4711 0 EOF\n"
      "2: -> FLOCK  ADVISORY  READ 901 08:01:4711 0 EOF\n"
      "3: OFDLCK ADVISORY  READ -1 00:06:1028 0 EOF\n"
      "4: -> POSIX\n"
      "\n");
  REQUIRE(all.size() == 2);
  CHECK(all[0].waits == 900);
  CHECK(all[0].holds == 812);
  CHECK(all[0].inode == 4711);
  CHECK(all[1].waits == 901);
  CHECK(waits_in("").empty());
}

}  // namespace ckpt::test
