// SPDX-License-Identifier: Apache-2.0
//
// Replays the experiment on its standard input (script.h), and prints its result as JSON.
#include <cstdio>
#include <cstring>
#include <iostream>

#include <nlohmann/json.hpp>

#include "bench/mobile/replayer/node.h"

using namespace ckpt;

int main(int argc, char **argv) {
  bool spans = argc > 1 && std::strcmp(argv[1], "--spans") == 0;
  Result<replay::Experiment> e = replay::read_experiment(std::cin);
  if (!e) return fmt::print(stderr, "replay: {}\n", e.error().text()), 2;
  replay::Node node(*e);
  replay::Outcome o = node.run();
  nlohmann::json result{{"makespan", o.makespan},
                        {"mean_end", o.mean_end},
                        {"evictions", o.evictions},
                        {"failed", o.failed},
                        {"busy", o.busy},
                        {"ends", o.ends},
                        {"spans", nlohmann::json::array()}};
  for (const replay::Span &s : node.spans())
    if (spans) result["spans"].push_back({s.program, s.number, s.gpu, s.from, s.to});
  fmt::print("{}\n", result.dump());
  return o.failed == 0 ? 0 : 1;
}
