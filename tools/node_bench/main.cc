// SPDX-License-Identifier: Apache-2.0
//
// ckpt-node-bench: measures a node's bandwidths, or what a program needs of them, for the
// contention model (schedule/contention).
#include <thread>

#include "common/base/print.h"
#include "schedule/trace/measured.h"
#include "tools/command_line.h"
#include "tools/json_text.h"
#include "tools/node_bench/copies.h"
#include "tools/node_bench/stream.h"
#include "tools/node_bench/task.h"
#include "tools/schedd/tag.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

struct Options {
  unsigned threads = std::max(1u, std::thread::hardware_concurrency());
  unsigned megabytes = 400;
  double seconds = 1;
  TaskOptions task;  // no program: the node is measured
  bool csv = false;
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

Result<int> measure_node(const Options &o) {
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
  print_text(json_text({{"unit", "GB/s"},
                        {"threads", o.threads},
                        {"bandwidths", bandwidths},
                        {"devices", devices},
                        {"assumed", assumed}},
                       2) +
             "\n");
  return 0;
}

std::string comment_of(const schedule::ContentionTask &t) {
  Tag tag;
  tag.seconds = t.seconds;
  tag.memory_gb = t.memory_gb;
  tag.host_to_device_gb = t.host_to_device_gb;
  tag.device_to_host_gb = t.device_to_host_gb;
  return text_of(tag);
}

Result<int> measure_program(const Options &o) {
  CKPT_TRY(MeasuredTask m, measure_task(o.task));
  if (o.csv) {
    print_text(schedule::tasks_csv({m.task}));
    return 0;
  }
  json task = {{"name", m.task.name},
               {"seconds", m.task.seconds},
               {"memory_gb", m.task.memory_gb},
               {"host_to_device_gb", m.task.host_to_device_gb},
               {"device_to_host_gb", m.task.device_to_host_gb}};
  json memory = {{"counter", m.counter}};
  if (!o.task.memory_gb) memory["missed_gb"] = m.missed_gb;
  print_text(json_text({{"task", task}, {"memory", memory}, {"comment", comment_of(m.task)}}, 2) +
             "\n");
  return 0;
}

Result<int> run(const Options &o) {
  if (!o.task.program.empty()) return measure_program(o);
  if (o.csv || !o.task.name.empty() || !o.task.device.empty() || !o.task.counter.empty() ||
      o.task.memory_gb || o.task.cache_bytes)
    return fail_with_code(kWrongUsage, {"PROGRAM is missing",
                                        "without it, the node is measured, by --threads, "
                                        "--megabytes and --seconds"});
  return measure_node(o);
}

void add_program_options(CommandLine &line, Options &o) {
  line.option("--name=NAME", o.task.name, "with PROGRAM: the name of the task")
      .default_is("that of the executable");
  line.option("--device=LIST", o.task.device, "with PROGRAM: its devices, as for ckpt-run");
  Option counter =
      line.option("--counter=WHAT", o.task.counter, "with PROGRAM: what counts cache misses")
          .one_of({"perf", "cachegrind"})
          .default_is("perf where the processors count them");
  Option given = line.option("--memory-gb=GB", o.task.memory_gb,
                             "with PROGRAM: its traffic with the memory, if it is known")
                     .range(0.0, 1e12);
  given.excludes(counter);
  line.size_option("--cache=SIZE", o.task.cache_bytes,
                   "with PROGRAM: the last-level cache that cachegrind simulates")
      .default_is("as this machine's");
  line.flag("--csv", o.csv, "with PROGRAM: a row for ckpt-sim --tasks");
}

}  // namespace
}  // namespace ckpt::tools

int main(int argc, char **argv) {
  using namespace ckpt::tools;
  Options o;
  CommandLine line(
      "ckpt-node-bench",
      "Measures the bandwidths of this node's memory, and of copies to its devices; or, with a "
      "program, its run time, its traffic with the memory and its copies. Prints JSON.\nExit code "
      "0: success; 1: the program could not be measured; 125: the arguments are wrong.");
  line.followed_by("[[--] PROGRAM [ARGUMENTS…]]");
  line.option("--threads=N", o.threads, "threads that use the memory together")
      .range(1, 4096)
      .default_is("the processors of the node");
  line.option("--megabytes=MB", o.megabytes, "memory that is used: several times the caches")
      .range(1, 1000000);
  line.option("--seconds=SECONDS", o.seconds, "the least time of each measurement")
      .range(0.0, 3600.0);
  add_program_options(line, o);
  // What follows our own options belongs to the program.
  int own = line.count_options(argc, argv);
  o.task.program.assign(argv + own, argv + argc);
  return run_tool(line, own, argv, 1, [&] { return run(o); });
}
