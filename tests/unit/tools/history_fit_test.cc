// SPDX-License-Identifier: Apache-2.0
#include "tools/history/fit.h"
#include "tools/schedd/move_costs.h"

#include <doctest/doctest.h>

using namespace ckpt;
using namespace ckpt::tools;
using nlohmann::json;

namespace {

json line(const char *event, double megabytes, double seconds) {
  return {{"event", event}, {"result", "ok"}, {"bytes", megabytes * 1e6}, {"seconds", seconds}};
}

}  // namespace

TEST_CASE("costs are fitted to a history, without waits and the time to build kernels") {
  std::vector<json> events;
  for (double mb : {10.0, 100.0, 1000.0}) {
    events.push_back(line("dump", mb, 0.5 + 0.01 * mb + 3));
    events.back()["waited_seconds"] = 3;
    events.push_back(line("restore", mb, 0.25 + 0.02 * mb + 1));
    events.back()["compile_seconds"] = 1;
  }
  HistoryFit fit = fit_history(events, {});
  CHECK(fit.dumps == 3);
  CHECK(fit.model.checkpoint.slope == doctest::Approx(0.01));
  CHECK(fit.model.checkpoint.base == doctest::Approx(0.5));
  CHECK(fit.model.restore_seconds(100, 1) == doctest::Approx(3.25));
  for (double e : fit.dump_errors) CHECK(e == doctest::Approx(0));
}

TEST_CASE("failures, other devices and other storage count for nothing, nor do damaged lines") {
  std::vector<json> events = {line("dump", 10, 1), line("dump", 10, 2), line("dump", 10, 4),
                              line("dump", 10, 8)};
  events[1]["result"] = "failed";
  events[2]["devices"] = {"ocl"};
  events[3]["storage"] = "nfs4";
  for (const json &damaged :
       {json{{"event", "dump"}, {"result", "ok"}, {"bytes", "x"}, {"seconds", 1}},
        json{{"event", 3}, {"result", "ok"}}, json{{"devices", 1}}})
    events.push_back(damaged);
  CHECK(fit_history(events, {}).dumps == 3);
  CHECK(fit_history(events, {.devices = "ocl"}).model.checkpoint.base == 4);
  CHECK(fit_history(events, {.devices = "none", .storage = "nfs4"}).model.checkpoint.base == 8);
}

TEST_CASE("the worst case of a size is the cost of data that cannot be compressed") {
  std::vector<json> events;
  for (double mb : {10.0, 100.0, 1000.0})
    for (double stored : {0.0, mb / 2}) {
      events.push_back(line("dump", mb, 1 + 0.01 * mb + 0.1 * stored));
      events.back()["stored_bytes"] = stored * 1e6;
      events.push_back(line("restore", mb, 2 + 0.02 * mb));
    }
  const std::vector<json> once = events;
  while (events.size() < 200) events.insert(events.end(), once.begin(), once.end());
  schedule::CostModel worst = fit_history(events, {}).worst_case();
  CHECK(worst.checkpoint_seconds(200) == doctest::Approx(1 + 0.11 * 200));
  CHECK(worst.checkpoint_seconds(200, 30) == doctest::Approx(31 + 0.11 * 200));
  CHECK(worst.restore_seconds(200, 3) == doctest::Approx(5 + 0.02 * 200));
}

TEST_CASE("the costs of moves on the nodes of a class") {
  std::vector<json> events;
  for (auto [host, seconds] : {std::pair{"n1", 1.0}, {"n1.site.org", 1.0}, {"n2", 5.0}})
    for (double mb : {10.0, 100.0})
      for (const char *event : {"dump", "restore"}) {
        events.push_back(line(event, mb, seconds));
        events.back()["host"] = host;
        events.back()["storage"] = "nfs";
      }
  events[0]["waited_seconds"] = 0.6;
  events[1]["compile_seconds"] = 0.3;
  MoveCosts near = move_costs(events, "", {"n1", "n7"});
  CHECK(near.model.checkpoint.base >= 1);
  CHECK(near.model.checkpoint.base < 2);  // four are few
  CHECK(near.few);
  CHECK(near.checkpoints == 4);
  CHECK(near.wait == doctest::Approx(1.5 * 0.6));
  CHECK(near.compile == doctest::Approx(1.5 * 0.3));
  CHECK(near.megabytes == doctest::Approx(1.5 * 100));
  // Two events are too few.
  CHECK(move_costs(events, "nfs", {"n2"}).checkpoints == 6);
  MoveCosts assumed = move_costs(events, "ext4", {"n1"});
  CHECK(assumed.checkpoints == 0);
  CHECK(assumed.model.restore_seconds(1024) == doctest::Approx(13.5));
  CHECK(assumed.megabytes == 1000);
}

TEST_CASE("few of the checkpoints of a busy node exceed the planned cost") {
  std::vector<json> events;
  for (int i = 0; i < 200; i++) {
    double load = i % 5 == 0 ? 10 : 1;
    events.push_back(line("dump", 10 + i, (0.1 + 0.001 * (10 + i)) * load));
    events.back()["load"] = load;
  }
  HistoryFit fit = fit_history(events, {});
  CHECK(fit.dump.bound.median.of_load == doctest::Approx(1));
  for (double e : fit.dump.errors()) CHECK(e == doctest::Approx(0));
  for (int i = 0; i < 200; i++)
    CHECK(fit.worst_case().checkpoint_seconds(10 + i) > 9.9 * (0.1 + 0.001 * (10 + i)));
}
