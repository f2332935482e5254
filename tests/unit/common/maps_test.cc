// SPDX-License-Identifier: Apache-2.0
#include "common/proc/maps.h"

#include <doctest/doctest.h>

using namespace ckpt;

TEST_CASE("lines of /proc/PID/maps are parsed; malformed ones are left out") {
  auto maps = parse_proc_maps(
      "55d0c0000000-55d0c0021000 rw-p 00000000 00:00 0                          [heap]\n"
      "7f5c1e000000-7f5c1e021000 r-xp 00002000 08:01 1234      /tmp/a file (deleted)\n"
      "nonsense\n"
      "7ffd0000f000-7ffd00010000 rw-p 00000000 00:00 0");
  REQUIRE(maps.size() == 3);
  CHECK(maps[0].path == "[heap]");
  CHECK(maps[0].private_anonymous());
  CHECK(maps[1].begin == 0x7f5c1e000000);
  CHECK(maps[1].end == 0x7f5c1e021000);
  CHECK(maps[1].permissions == "r-xp");
  CHECK(maps[1].inode == 1234);
  CHECK(maps[1].path == "/tmp/a file (deleted)");
  CHECK_FALSE(maps[1].private_anonymous());
  CHECK(maps[2].path.empty());
  CHECK(maps[2].private_anonymous());
}
