// SPDX-License-Identifier: Apache-2.0
//
// Replays the experiment on its standard input (script.h), and prints its result as JSON.
#include <cstdio>
#include <cstring>
#include <iostream>

#include "bench/mobile/replayer/node.h"

using namespace ckpt;

int main(int argc, char **argv) {
  bool spans = argc > 1 && std::strcmp(argv[1], "--spans") == 0;
  Result<replay::Experiment> e = replay::read_experiment(std::cin);
  if (!e) return fmt::print(stderr, "replay: {}\n", e.error().text()), 2;
  replay::Node node(*e);
  replay::Outcome o = node.run();
  fmt::print(
      "{{\"makespan\": {:.3f}, \"mean_end\": {:.3f}, \"evictions\": {}, \"failed\": {}, "
      "\"busy\": [{:.3f}], \"ends\": [{:.3f}], \"spans\": [",
      o.makespan, o.mean_end, o.evictions, o.failed, fmt::join(o.busy, ", "),
      fmt::join(o.ends, ", "));
  const char *comma = "";
  for (const replay::Span &s : node.spans()) {
    if (!spans) break;
    fmt::print("{}[\"{}\", {}, {}, {:.3f}, {:.3f}]", comma, s.program, s.number, s.gpu, s.from,
               s.to);
    comma = ", ";
  }
  fmt::print("]}}\n");
  return o.failed == 0 ? 0 : 1;
}
