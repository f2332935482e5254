// SPDX-License-Identifier: Apache-2.0
#include "tools/history/moves.h"

#include <doctest/doctest.h>

namespace ckpt::test {
using namespace tools;
using nlohmann::json;

namespace {

MoveLine line(const char *from, const char *to, std::optional<double> leave,
              std::optional<double> enter) {
  return {.pid = 7,
          .program = "/x",
          .apis = {"cuda"},
          .from = from,
          .to = to,
          .device_bytes = 1000,
          .leave = leave,
          .enter = enter,
          .seconds = 9};
}

json event(const MoveLine &l) {
  json e = as_event(l);
  e["host"] = "n";
  return e;
}

}  // namespace

TEST_CASE("a line says what was done, and how long the program had no devices") {
  json move = as_event(line("remote:a", "here", 0.5, 0.25));
  CHECK(move["event"] == "move");
  CHECK(move["pause_seconds"] == 0.75);
  CHECK((move["from"] == "remote:a" && move["to"] == "here"));
  json suspend = as_event(line("remote:a", "", 0.5, {}));
  CHECK(suspend["event"] == "suspend");
  CHECK_FALSE(suspend.contains("to"));
  CHECK_FALSE(suspend.contains("pause_seconds"));
  CHECK(as_event(line("here", "remote:a", {}, 0.25))["event"] == "resume");
  json failed = failed_move("resume", 7, "why");
  CHECK((failed["result"] == "failed" && failed["why"] == "why"));
}

TEST_CASE("earlier moves count by the place that they left, and by the one that they went to") {
  std::vector<json> events = {event(line("remote:a", "here", 0.5, 0.25)),
                              event(line("remote:a", "", 0.6, {})),
                              event(line("remote:a", "remote:b", {}, 0.7)),
                              event(line("remote:b", "here", 0.8, 0.9)),
                              event(line("remote:a", "here", 5, 5)),
                              event(line("remote:a", "here", 6, 6)),
                              json{{"event", "dump"}, {"result", "ok"}, {"bytes", 5}},
                              json{{"from", 3}, {"to", json::array()}, {"result", "ok"}}};
  events[4]["host"] = "another";
  events[5]["result"] = "failed";
  EarlierMoves m = earlier_moves(events, "remote:a", "here", "n");
  REQUIRE(m.leave.size() == 2);
  CHECK((m.leave[0].seconds == 0.6 && m.leave[1].seconds == 0.5));  // the newest first
  REQUIRE(m.enter.size() == 2);
  CHECK((m.enter[0].seconds == 0.9 && m.enter[1].seconds == 0.25));
  CHECK(m.enter[1].bytes == 1000);
  CHECK(earlier_moves(events, "here", "remote:c", "n").enter.empty());
}

TEST_CASE("only the newest moves count") {
  std::vector<json> events(200, event(line("here", "here", 1, 1)));
  events.push_back(event(line("here", "here", 2, 2)));
  EarlierMoves m = earlier_moves(events, "here", "here", "n");
  CHECK(m.leave.size() == 50);
  CHECK(m.leave.front().seconds == 2);
}

}  // namespace ckpt::test
