// SPDX-License-Identifier: Apache-2.0
#include "idle/sample_log.h"

#include <doctest/doctest.h>

using namespace ckpt;
using namespace ckpt::idle;

namespace {

constexpr Time kSecond{1'000'000};

Replay replayed(const char *text, const Settings &settings = {}) {
  Result<std::vector<Sample>> log = parse_log(text);
  REQUIRE(log);
  return replay(*log, settings);
}

}  // namespace

TEST_CASE("a sample is read as it was written") {
  Sample s;
  s.at = Time(12'500'000);
  s.owner_cpu = 0.455;
  s.owner_device_bytes = 1u << 30;
  s.celsius = 61.5;
  s.minute = 1439;
  s.input = s.on_battery = s.off = true;
  Result<std::optional<Sample>> read = parse_sample(text_of(s));
  REQUIRE(read);
  REQUIRE(*read);
  CHECK(text_of(**read) == text_of(s));
  CHECK((*read)->at == s.at);
  CHECK((*read)->owner_device_bytes == s.owner_device_bytes);
}

TEST_CASE("empty lines and comments are no samples; all else that is wrong is named") {
  for (const char *nothing : {"", "  ", "# 1 cpu=3", "\r"}) {
    Result<std::optional<Sample>> s = parse_sample(nothing);
    REQUIRE(s);
    CHECK_FALSE(*s);
  }
  for (const char *wrong :
       {"x", "-1", "nan", "1e99", "1 cpu=101", "1 cpu=", "1 cpu", "1 disk=3", "1 minute=1440",
        "1 device=-1", "1 device=1e19", "1 celsius=inf", "1 =", "1 inputs"})
    CHECK_FALSE(parse_sample(wrong));
  CHECK(parse_log("1\n\n0.5\n").error().what ==
        "line 3: its time is before that of the line above");
}

TEST_CASE("a line holds until the next one") {
  Replay r = replayed("0\n100 cpu=50\n105\n200\n");
  REQUIRE(r.transitions.size() == 3);
  CHECK(r.transitions[0].at == kSecond);
  CHECK(r.transitions[1].at == 100 * kSecond);
  CHECK(r.transitions[2].at == 106 * kSecond);
  CHECK(r.idle == (99 + 94) * kSecond);
  CHECK(r.end == 200 * kSecond);
}

TEST_CASE("a moment of input lasts for as long as the settings say, and no longer") {
  Settings s{.input = 60 * kSecond};
  Replay r = replayed("0\n100 input\n500\n", s);
  REQUIRE(r.transitions.size() == 4);
  CHECK(r.transitions[1].at == 61 * kSecond);
  CHECK(r.transitions[2].at == 100 * kSecond);
  CHECK(r.transitions[3].at == 161 * kSecond);
  CHECK(r.idle == (39 + 339) * kSecond);
}

TEST_CASE("logs without a length") {
  CHECK(replayed("").transitions.empty());
  CHECK(replayed("5 cpu=100\n").transitions.empty());
  CHECK(replayed("5\n5\n5\n").idle == Time{0});
  CHECK(replayed("0\n9\n", {.quiet = Time{0}}).idle == 9 * kSecond);
}
