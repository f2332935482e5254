// SPDX-License-Identifier: Apache-2.0
//
// What a dry run of a move says.
#include "tools/restore/dry_run.h"

#include <doctest/doctest.h>

namespace ckpt::test {
using namespace tools;
using namespace schedule;
using nlohmann::json;

namespace {

bool has(const std::string &text, const char *part) { return text.find(part) != std::string::npos; }

// 25 waits a second for 2 ms each; a move of 64 MiB that takes 0.9 s.
MoveDryRun remote_to_here() {
  MoveDryRun r;
  r.pid = 7;
  r.program = "/x/md";
  r.from = "remote:gpu1";
  r.to = "here";
  r.device = "cuda:0";
  r.held_bytes = 64 << 20;
  r.watched = 2;
  r.work = {25, 1 << 20};
  r.now = {false, 2e-3, {}};
  r.leave = Estimate::about(0.5);
  r.enter = Estimate::about(0.4);
  r.left = r.entered = 3;
  r.checked = true;
  r.forecast = forecast_move(r.leave + r.enter, Estimate::about(0.05), Estimate::about(0));
  return r;
}

}  // namespace

TEST_CASE("a dry run that could not check the devices does not call the move possible") {
  MoveDryRun r = remote_to_here();
  r.checked = false;
  CHECK(has(text_of(r), "check    unknown: see below"));
  CHECK(as_json(r)["possible"].is_null());
  r.reasons = {"process 7: it maps a buffer"};
  CHECK(has(text_of(r), "would be refused"));
  CHECK(as_json(r)["possible"] == false);
}

TEST_CASE("a dry run says what a move costs, what it gains and when it pays") {
  MoveDryRun r = remote_to_here();
  std::string text = text_of(r);
  CHECK(has(text, "7 (/x/md), running; it was not touched"));
  CHECK(has(text, "possible now"));
  CHECK(has(text, "to this node: about 0.900 s without devices, for 64.0 MiB of contents"));
  CHECK(has(text, "it waits 25.0 times a second, 2.00 ms each, and moves 1.0 MiB a second"));
  CHECK(has(text, "at least 5.0 % of its time"));  // the rate of the link is not known
  CHECK(has(text, "what takes a second now takes about 0.950 s"));
  CHECK(has(text, "pays     if it still runs for about 18.0 s\n"));
  CHECK_FALSE(has(text, "steps"));

  r.step = 0.06;
  text = text_of(r);
  CHECK(has(text, "step     60.0 ms now, about 57.0 ms then"));
  CHECK(has(text, "for about 18.0 s, or 300 steps"));

  json j = as_json(r);
  CHECK(j["possible"] == true);
  CHECK(j["state"] == "running");
  CHECK(j["device_bytes"] == 64 << 20);
  CHECK(j["now"]["place"] == "remote:gpu1");
  CHECK(j["now"]["answer_seconds"] == 2e-3);
  CHECK(j["now"]["bytes_per_second"].is_null());
  CHECK(j["move"]["seconds"].get<double>() == doctest::Approx(0.9));
  CHECK(j["move"]["sense"] == "about");
  CHECK(j["second_then"]["seconds"].get<double>() == doctest::Approx(0.95));
  CHECK(j["pays"] == "after");
  CHECK(j["pays_after"]["seconds"].get<double>() == doctest::Approx(18));
  CHECK(j["step"]["pays_after"] == 300);
}

TEST_CASE("what is not known is null, with a reason") {
  MoveDryRun r = remote_to_here();
  r.enter = {};
  r.leave = Estimate::at_least(0.5);
  r.unknown = {"how long it takes to get devices of this node: \x1b[2J"};
  r.forecast = forecast_move({}, {}, Estimate::about(0));
  r.work = {};
  std::string text = text_of(r);
  CHECK(has(text, "at least 0.500 s without devices"));
  CHECK(has(text, "unknown to get the new ones"));
  CHECK(has(text, "then     unknown"));
  CHECK(has(text, "pays     unknown"));
  CHECK(has(text, "unknown  how long it takes"));
  CHECK_FALSE(has(text, "\x1b"));
  CHECK_FALSE(has(text, "times a second"));
  json j = as_json(r);
  CHECK((j["enter"].is_null() && j["move"].is_null() && j["pays_after"].is_null()));
  CHECK(j["waits_per_second"].is_null());
  CHECK(j["pays"] == "unknown");
}

TEST_CASE("a move to a slower way does not pay, and a refusal names every reason") {
  MoveDryRun r = remote_to_here();
  r.from = "here";
  r.to = "remote:gpu1:7667";
  r.now = {};
  r.then = {false, 2e-3, {}};
  r.forecast = forecast_move(r.leave + r.enter, Estimate::about(0), Estimate::about(0.05));
  r.reasons = {"first", "second"};
  std::string text = text_of(r);
  CHECK(has(text, "would be refused"));
  CHECK(has(text, "the way to its devices costs no time"));
  CHECK(has(text, "to gpu1:7667"));
  CHECK(has(text, "pays     not"));
  Error e = refusal_of(r);
  CHECK(has(e.what, "moved to these devices:\n  - first\n  - second"));
  CHECK(has(e.hint, "not touched"));
  CHECK(as_json(r)["possible"] == false);
  CHECK(as_json(r)["pays"] == "never");
}

TEST_CASE("of a suspended program the former devices are compared") {
  MoveDryRun r = remote_to_here();
  r.suspended = true;
  r.leave = Estimate::about(0);
  r.back = Estimate::about(1.5);
  std::string text = text_of(r);
  CHECK(has(text,
            "resume   on this node: about 0.400 s, for 64.0 MiB of contents; on gpu1, where it "
            "was, about 1.50 s"));
  CHECK(has(text, "while it had them, 2.00 s"));
  CHECK(as_json(r)["back"]["seconds"] == 1.5);
  r.to = r.from;
  CHECK_FALSE(has(text_of(r), "pays"));
}

}  // namespace ckpt::test
