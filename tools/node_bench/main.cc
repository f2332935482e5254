// SPDX-License-Identifier: Apache-2.0
//
// ckpt-node-bench: measures a node's bandwidths for the contention model (schedule/contention).
#include <iostream>
#include <thread>

#include "tools/command_line.h"
#include "tools/json_text.h"
#include "tools/node_bench/copies.h"
#include "tools/node_bench/stream.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

struct Options {
  unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  unsigned megabytes = 400;
  double seconds = 1;
};

// The figures of Bandwidths (schedule/contention/node.h). HC measured the memory with two pinned
// copies at once; without a device that copies by itself, nothing loads the memory more than all
// cores do, so that is the estimate. A link that was not measured is one that is never the
// narrowest.
json bandwidths_of(double core, double cpu, const std::vector<CopyRates> &copies, json &assumed) {
  double copy = core / 2, link = 0;
  for (const CopyRates &r : copies) {
    copy = link == 0 ? std::min(r.host_to_device, r.device_to_host)
                     : std::max(copy, std::min(r.host_to_device, r.device_to_host));
    link = std::max({link, r.host_to_device, r.device_to_host});
  }
  assumed.push_back("memory: as much as all cores together");
  if (copies.empty()) {
    assumed.push_back("copy: half of a core's bandwidth; link: as the memory; no device was found");
    link = cpu;
  }
  return {{"core", core}, {"cpu", cpu}, {"memory", cpu}, {"link", link}, {"copy", copy}};
}

Result<int> run(const Options &o) {
  json assumed = json::array(), devices = json::array();
  double core = stream_bandwidth(1, o.megabytes, o.seconds);
  double cpu = std::max(core, stream_bandwidth(o.threads, o.megabytes, o.seconds));
  std::vector<CopyRates> copies = copy_rates(o.megabytes / 4, o.seconds);
  for (const CopyRates &r : copies)
    devices.push_back({{"api", r.api},
                       {"device", r.device},
                       {"host_to_device", r.host_to_device},
                       {"device_to_host", r.device_to_host}});
  json bandwidths = bandwidths_of(core, cpu, copies, assumed);
  std::cout << json_text({{"unit", "GB/s"},
                          {"threads", o.threads},
                          {"bandwidths", bandwidths},
                          {"devices", devices},
                          {"assumed", assumed}},
                         2)
            << "\n";
  return 0;
}

}  // namespace
}  // namespace ckpt::tools

int main(int argc, char **argv) {
  using namespace ckpt::tools;
  Options o;
  CommandLine line(
      "ckpt-node-bench",
      "Measures the bandwidths of this node's memory, and of copies to its devices, as "
      "JSON.\nExit code 0: success; 125: the arguments are wrong.");
  line.option("--threads=N", o.threads, "threads that use the memory together")
      .range(1, 4096)
      .default_is("the processors of the node");
  line.option("--megabytes=MB", o.megabytes, "memory that is used: several times the caches")
      .range(1, 1000000);
  line.option("--seconds=SECONDS", o.seconds, "the least time of each measurement")
      .range(0.0, 3600.0);
  return run_tool(line, argc, argv, 1, [&] { return run(o); });
}
