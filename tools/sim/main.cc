// SPDX-License-Identifier: Apache-2.0
//
// ckpt-sim: simulates the scheduling of jobs that can be moved.
#include <fstream>

#include "common/base/print.h"
#include "tools/command_line.h"
#include "tools/error_json.h"
#include "tools/json_text.h"
#include "tools/sim/contention.h"
#include "tools/sim/options.h"
#include "tools/sim/report.h"

namespace ckpt::tools {
namespace {

using namespace schedule;

// More rectangles than that are no picture.
constexpr size_t kMostPieces = 20'000;

Result<> write_file(const std::string &path, const std::string &text) {
  std::ofstream out(path, std::ios::binary);
  if (!(out << text) || !out.flush())
    return fail_with_hint(fmt::format("cannot write {}: {}", path, std::strerror(errno)),
                          "check the folder and its free space");
  return {};
}

Result<> draw_gantt(const SimOptions &o, const Experiment &e, const Workload &w,
                    const Outcome &outcome, PolicyName policy) {
  if (outcome.pieces.size() > kMostPieces)
    return fail_with_hint(
        fmt::format("--gantt: {} rectangles are too many for a picture", outcome.pieces.size()),
        "use fewer --jobs");
  return write_file(o.gantt, gantt_svg(w, e.classes, outcome, std::string(name_of(policy))));
}

Result<std::vector<Run>> run_load(const SimOptions &o, const Experiment &e, double load,
                                  std::string &lines) {
  CKPT_TRY(Jobs jobs, jobs_of(o, e, load));
  std::vector<Run> runs;
  double mct = 0;
  for (PolicyName p : e.policies) {
    CKPT_TRY(Outcome outcome, simulate(jobs.workload, e.classes, p, e.policy));
    runs.push_back({p, load, jobs.workload.jobs.size(), outcome.impossible, jobs.left_out,
                    means_of(jobs.workload, outcome)});
    if (p == PolicyName::Mct) mct = runs.back().means.turnaround;
    if (!o.outcome.empty()) lines += outcome_lines(jobs.workload, runs.back(), outcome);
    // Of the last policy, if there are several.
    if (!o.gantt.empty() && p == e.policies.back())
      CKPT_CHECK(draw_gantt(o, e, jobs.workload, outcome, p));
  }
  if (mct > 0)
    for (Run &r : runs) r.to_mct = r.means.turnaround / mct;
  return runs;
}

Result<int> run(const SimOptions &o) {
  if (!o.task_sets.empty() || !o.tasks.empty()) {
    CKPT_TRY(std::string text, o.tasks.empty() ? compare_ect(o) : predict_pairs(o));
    print_text(text);
    return 0;
  }
  CKPT_TRY(Experiment e, experiment_of(o));
  std::vector<Run> all;
  std::string lines = outcome_header();
  for (double load : e.loads) {
    CKPT_TRY(std::vector<Run> runs, run_load(o, e, load, lines));
    all.insert(all.end(), runs.begin(), runs.end());
  }
  if (!o.outcome.empty()) CKPT_CHECK(write_file(o.outcome, lines));
  if (!o.sweep.empty()) CKPT_CHECK(write_file(o.sweep, sweep_svg(all)));
  print_text(o.as_json ? json_text(json_of(all, !e.from_log), 2) + "\n"
                       : table_of(all, !e.from_log));
  return 0;
}

}  // namespace
}  // namespace ckpt::tools

int main(int argc, char **argv) {
  using namespace ckpt;
  using namespace ckpt::tools;
  SimOptions o;
  CommandLine line("ckpt-sim",
                   "Simulates the scheduling of jobs that can be checkpointed and moved between "
                   "classes of nodes, under several policies.\n"
                   "Exit code 0: success; 1: failure; 125: the arguments are wrong.");
  line.option("--policy=LIST", o.policies, "policies separated by commas");
  line.option("--swf=FILE", o.swf, "jobs of a log in the Standard Workload Format");
  line.option("--gavel=FILE", o.gavel, "jobs of a trace of Gavel");
  line.option("--pods=FILE", o.pods, "jobs of a list of pods (Alibaba gpu-v2023)");
  line.option("--csv=FILE", o.csv, "jobs of a table (CSV) with the columns submit, seconds, …");
  line.option("--gpu-nodes=FILE", o.gpu_nodes,
              "the classes of a list of GPU nodes (Alibaba gpu-v2023)");
  line.option("--classes=LIST", o.classes, "classes as NAME:NODES[:SPEED], separated by commas")
      .default_is("fast:512,slow:512:0.2");
  line.option("--jobs=N", o.jobs, "how many synthetic jobs");
  line.option("--seed=N", o.seed, "the seed of synthetic jobs");
  line.option("--load=LIST", o.loads, "loads of synthetic jobs separated by commas");
  line.option("--load-of", o.load_of,
              "the nodes that a load of 1 fills: all, the fastest or the slowest class, or all at "
              "their mean speed")
      .one_of({"all", "fastest", "slowest", "mean"});
  line.option("--sizes=MIN-MAX", o.sizes, "nodes of a synthetic job, powers of two");
  line.option("--mix", o.mix, "which numbers of nodes are more likely")
      .one_of({"small", "large", "equal"});
  line.option("--mix-ratio=N", o.mix_ratio,
              "how many times as likely each number of nodes is as the next one of --mix")
      .range(1.0, 1e3);
  line.option("--run-times", o.run_times, "the distribution of run times")
      .one_of({"uniform", "log-uniform"});
  line.option("--arrivals", o.arrivals,
              "whether a higher load has more arrivals, or fewer, as the paper prints it")
      .one_of({"more", "printed"});
  line.option("--intervals", o.intervals,
              "the time between submissions: that of a Poisson process, or uniform")
      .one_of({"poisson", "uniform"});
  line.option("--max-minutes=N", o.max_minutes, "the longest run time on slow nodes")
      .range(0.001, 1e6);
  line.option("--min-speedup=N", o.min_speedup, "the smallest speedup of a job on fast nodes")
      .range(1e-3, 1e6);
  line.option("--max-speedup=N", o.max_speedup, "the largest speedup of a job on fast nodes")
      .range(1.0, 1e6);
  line.option("--memory-per-node=GB", o.memory_per_node,
              "the largest memory of a job on each node, in GB; jobs of a log that does not state "
              "it get "
              "half of it")
      .range(0.0, 1e6);
  line.option("--cost=SECONDS", o.cost, "seconds that a move takes for each GB").range(0.0, 1e6);
  line.option("--compile=SECONDS", o.compile, "seconds in which a restore builds kernels")
      .range(0.0, 1e6);
  line.option("--wait=SECONDS", o.wait, "seconds for which a checkpoint waits for running kernels")
      .range(0.0, 1e6);
  line.option("--storage", o.storage, "where images go: one shared storage, or one per-node")
      .one_of({"shared", "per-node"});
  line.option("--charge", o.charge, "charge moves as printed in the paper, or exactly")
      .one_of({"printed", "exact"});
  line.option("--regions", o.regions, "which idle intervals a job may use")
      .one_of({"before-start", "bounded", "all"});
  line.flag("--whole-last-region", o.whole_last_region,
            "reserve the last idle interval to its end");
  line.flag("--free-final-restore", o.free_final_restore,
            "charge no restore for the last part of a job; needs --charge=printed");
  line.option("--overestimate=FACTOR", o.overestimate, "planned costs divided by real ones")
      .range(1.0, 1e3);
  line.option("--waste-weight=N", o.waste_weight, "WMCT: the weight of wasted node time")
      .range(0.0, 1e3);
  line.option("--seconds-per-step=SECONDS", o.seconds_per_step,
              "the time of a step in a trace of Gavel")
      .range(1e-6, 1e6);
  line.flag("--memory-in-bytes", o.memory_in_bytes,
            "the log's memory is in bytes for the whole job, not in KiB for each processor");
  line.flag("--json", o.as_json, "print the results as JSON");
  line.option("--outcome=FILE", o.outcome, "write the start and the end of each job as CSV");
  line.option("--gantt=FILE", o.gantt, "draw the schedule of the last policy into this SVG file");
  line.option("--sweep=FILE", o.sweep, "draw turnaround over load into this SVG file");
  line.option("--task-sets=LIST", o.task_sets,
              "earliest completion time with and without contention on these sets: 1, 2, 3");
  line.option("--task-count=N", o.task_count, "how many tasks a set has");
  line.option("--watts=NODE,CORE,GPU", o.watts, "the power model of --task-sets");
  line.option("--tasks=FILE", o.tasks, "predict the slowdowns of these measured tasks in pairs");
  line.option("--node=FILE", o.node, "the node of --tasks: the output of ckpt-node-bench")
      .default_is("the paper's node");
  return run_tool_with_json(line, argc, argv, 1, o.as_json, [&] { return run(o); });
}
