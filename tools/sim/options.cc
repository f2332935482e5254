// SPDX-License-Identifier: Apache-2.0
#include "tools/sim/options.h"

#include <algorithm>
#include <bit>

#include "schedule/trace/lines.h"
#include "tools/text_file.h"

namespace ckpt::tools {

using namespace schedule;

namespace {

constexpr double kMegabytesPerGb = 1024;  // as KS-3 counts
constexpr u64 kMostJobs = 100'000'000;

Result<double> positive(std::string_view text, std::string_view option) {
  std::optional<double> value = number_in(text);
  if (!value || *value <= 0)
    return fail_with_hint(fmt::format("{}: {:?} is not a positive number", option, text),
                          "see ckpt-sim(1)");
  return *value;
}

Result<> read_policies(const SimOptions &o, Experiment &e) {
  for (std::string_view name : columns_of(o.policies, ',')) {
    std::optional<PolicyName> p = policy_named(name);
    if (!p)
      return fail_with_hint(fmt::format("there is no policy {:?}", name),
                            "the policies are MCT, MCTB, MCTM, MCTBM and WMCT");
    e.policies.push_back(*p);
  }
  return {};
}

// "fast:512,slow:512:0.2": name, nodes and the speed of a node.
Result<> read_classes(const SimOptions &o, Experiment &e) {
  for (std::string_view text : columns_of(o.classes, ',')) {
    std::vector<std::string_view> parts = columns_of(text, ':');
    if (parts.size() < 2 || parts.size() > 3 || parts[0].empty())
      return fail_with_hint(fmt::format("--classes: cannot read {:?}", text),
                            "write NAME:NODES or NAME:NODES:SPEED");
    CKPT_TRY(double nodes, positive(parts[1], "--classes"));
    if (nodes > kMostNodes) return fail("--classes: more nodes than {}", kMostNodes);
    if (!is_whole(nodes)) return fail("--classes: {:?} is not a whole number", parts[1]);
    if (std::ranges::any_of(e.classes, [&](const auto &c) { return c.name == parts[0]; }))
      return fail("--classes: {} is there twice", parts[0]);
    double speed = 1;
    if (parts.size() == 3) {
      CKPT_TRY(speed, positive(parts[2], "--classes"));
    }
    e.classes.push_back({std::string(parts[0]), static_cast<unsigned>(nodes), {}});
    e.speeds.push_back(speed);
  }
  return {};
}

Result<> choose_classes(const SimOptions &o, Experiment &e) {
  if (!o.gpu_nodes.empty()) {
    CKPT_TRY(std::string text, contents_of(o.gpu_nodes));
    Result<std::vector<ResourceClass>> classes = read_gpu_nodes(text);
    if (!classes) return Failure(std::move(classes).error().in(o.gpu_nodes));
    e.classes = std::move(*classes);
    e.speeds.assign(e.classes.size(), 1);
  } else if (!o.classes.empty()) {
    CKPT_CHECK(read_classes(o, e));
  } else {
    e.classes = {{"fast", 512, {}}, {"slow", 512, {}}};
    e.speeds = {1, 0.2};
  }
  if (!e.from_log && e.classes.size() != 2)
    return fail_with_hint("synthetic jobs need two classes, a fast one and a slow one",
                          "name two with --classes, or a log with --swf, --gavel, --pods or --csv");
  Line half{o.cost / 2 / kMegabytesPerGb, 0};
  for (ResourceClass &c : e.classes) c.costs = {half, half};
  return {};
}

Result<SyntheticOptions> synthetic(const SimOptions &o, double load) {
  SyntheticOptions s;
  if (o.jobs == 0 || o.jobs > kMostJobs)
    return fail("--jobs: a number from 1 to {} is needed", kMostJobs);
  s.jobs = o.jobs;
  s.seed = o.seed;
  s.load = load;
  s.load_of = o.load_of == "fastest"   ? LoadOf::Fastest
              : o.load_of == "mean"    ? LoadOf::Mean
              : o.load_of == "slowest" ? LoadOf::Slowest
                                       : LoadOf::All;
  std::vector<std::string_view> sizes = columns_of(o.sizes, '-');
  if (sizes.size() != 2) return fail_with_hint("--sizes: MIN-MAX is needed", "for example 1-16");
  CKPT_TRY(double least, positive(sizes[0], "--sizes"));
  CKPT_TRY(double most, positive(sizes[1], "--sizes"));
  if (most > kMostNodes || least > most || !std::has_single_bit(static_cast<unsigned>(least)) ||
      !std::has_single_bit(static_cast<unsigned>(most)))
    return fail("--sizes: two powers of two are needed, the smaller one first");
  s.min_nodes = static_cast<unsigned>(least);
  s.max_nodes = static_cast<unsigned>(most);
  s.max_minutes = o.max_minutes;
  s.min_speedup = o.min_speedup;
  s.max_speedup = o.max_speedup;
  if (s.min_speedup > s.max_speedup) return fail("--min-speedup is larger than --max-speedup");
  s.mix_ratio = o.mix_ratio;
  s.mix = o.mix == "small" ? Mix::MoreSmall : o.mix == "large" ? Mix::MoreLarge : Mix::Equal;
  s.run_times = o.run_times == "log-uniform" ? RunTimes::LogUniform : RunTimes::Uniform;
  s.arrivals = o.arrivals == "printed" ? Arrivals::Printed : Arrivals::MoreWithLoad;
  s.intervals = o.intervals == "uniform" ? Intervals::Uniform : Intervals::Poisson;
  s.max_gb_per_node = o.memory_per_node;
  s.compile_seconds = o.compile;
  s.wait_seconds = o.wait;
  return s;
}

Result<Trace> read_log(const SimOptions &o) {
  TraceOptions t{.megabytes_per_node = o.memory_per_node / 2 * kMegabytesPerGb,
                 .memory_in_bytes = o.memory_in_bytes,
                 .seconds_per_step = o.seconds_per_step};
  const std::string &path = !o.swf.empty()     ? o.swf
                            : !o.gavel.empty() ? o.gavel
                            : !o.pods.empty()  ? o.pods
                                               : o.csv;
  CKPT_TRY(std::string text, contents_of(path));
  Result<Trace> trace = !o.swf.empty()     ? read_swf(text, t)
                        : !o.gavel.empty() ? read_gavel(text, t)
                        : !o.pods.empty()  ? read_pods(text, t)
                                           : read_jobs_csv(text, t);
  if (!trace) return Failure(std::move(trace).error().in(path));
  if (trace->jobs.empty())
    return fail_with_hint(
        fmt::format("{} has no job that can be simulated; {} records have no run time, no nodes or "
                    "no GPU",
                    path, trace->left_out),
        "check that the option names the format of this file");
  return std::move(*trace);
}

}  // namespace

Result<Experiment> experiment_of(const SimOptions &o) {
  Experiment e;
  int logs = !o.swf.empty() + !o.gavel.empty() + !o.pods.empty() + !o.csv.empty();
  if (logs > 1) return fail("only one of --swf, --gavel, --pods and --csv can be given");
  e.from_log = logs == 1;
  CKPT_CHECK(read_policies(o, e));
  for (std::string_view load : columns_of(o.loads, ',')) {
    CKPT_TRY(double value, positive(load, "--load"));
    e.loads.push_back(value);
  }
  if (e.from_log) e.loads.resize(1);
  CKPT_CHECK(choose_classes(o, e));
  e.policy = {.charge = o.charge == "exact" ? Charge::Exact : Charge::Printed,
              .regions = o.regions == "bounded" ? Regions::Bounded
                         : o.regions == "all"   ? Regions::All
                                                : Regions::BeforeStart,
              .shorten_last = !o.whole_last_region,
              .final_restore = !o.free_final_restore,
              .overestimate = o.overestimate,
              .waste_weight = o.waste_weight};
  return e;
}

Result<Jobs> jobs_of(const SimOptions &o, const Experiment &e, double load) {
  Jobs jobs;
  if (e.from_log) {
    CKPT_TRY(Trace trace, read_log(o));
    jobs.left_out = trace.left_out;
    jobs.workload = workload_of(std::move(trace), e.classes, e.speeds);
    for (Job &job : jobs.workload.jobs) {
      job.compile_seconds = static_cast<float>(o.compile);
      job.wait_seconds = static_cast<float>(o.wait);
    }
  } else {
    CKPT_TRY(SyntheticOptions s, synthetic(o, load));
    jobs.workload = synthetic_workload(s, e.classes[0].nodes, e.classes[1].nodes);
  }
  // Each node writes to a storage of its own.
  if (o.storage == "per-node")
    for (Job &job : jobs.workload.jobs) job.megabytes /= static_cast<float>(job.nodes);
  return jobs;
}

}  // namespace ckpt::tools
