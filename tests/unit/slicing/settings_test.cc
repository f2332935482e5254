// SPDX-License-Identifier: Apache-2.0
#include "slicing/settings.h"

#include <doctest/doctest.h>

using namespace ckpt;
using namespace ckpt::slicing;

TEST_CASE("the settings are a list of words, and values out of range are brought into it") {
  CHECK_FALSE(parse_settings("").sliced);
  Settings s = parse_settings("guest,fps=30,blocks=7,margin=2.5,lows=0,nonsense=3,,ms=20");
  CHECK(s.sliced);
  CHECK(s.guest);
  CHECK(s.blocks == 7);
  CHECK(s.slice_ns == 2e7);
  CHECK(s.cooperation.frames == 30);
  CHECK(s.cooperation.margin == 2.5);
  CHECK(s.cooperation.lows == 1);
  CHECK(parse_settings("slice,fps=nan").cooperation.frames > 0);
  CHECK(parse_settings("blocks=7").fixed_blocks(100) == 7);
  CHECK(parse_settings("percent=25").fixed_blocks(100) == 25);
  CHECK(parse_settings("percent=25").fixed_blocks(101) == 26);
  CHECK(parse_settings("percent=0.1").fixed_blocks(3) == 1);
  CHECK(parse_settings("ms=20").fixed_blocks(100) == 0);
}
