// SPDX-License-Identifier: Apache-2.0
//
// ckpt-schedd: places and moves Slurm's tagged jobs by a policy of schedule/.
#include <time.h>

#include <algorithm>

#include "common/base/log.h"
#include "schedule/trace/lines.h"
#include "tools/command_line.h"
#include "tools/history/history.h"
#include "tools/node_file.h"
#include "tools/schedd/daemon.h"
#include "tools/stop_request.h"

namespace ckpt::tools {
namespace {

using namespace schedule;

struct Options {
  std::string classes, policy = "WMCT", history, storage, share, state;
  unsigned interval = 2, grace = 120, settle = 10, requeue_delay = 121;
  double waste_weight = 0.05;
  std::optional<double> megabytes;
  bool once = false, dry_run = false, release = false, times = false;
};

// "fast:1,slow:0.5": features of nodes, with their speeds.
Result<> read_classes(const std::string &text, SchedOptions &o) {
  for (std::string_view word : columns_of(text, ',')) {
    std::vector<std::string_view> parts = columns_of(word, ':');
    std::optional<double> speed = parts.size() == 2 ? number_in(parts[1]) : 1.0;
    if (parts.size() > 2 || parts[0].empty() || !speed || *speed <= 0)
      return fail_with_hint(
          fmt::format("--classes: cannot read {:?}", word),
          "write FEATURE:SPEED, with a feature that the nodes have in slurm.conf");
    if (std::ranges::any_of(o.classes, [&](const auto &c) { return c.name == parts[0]; }))
      return fail("--classes: {} is there twice", parts[0]);
    o.classes.push_back({std::string(parts[0]), 0, {}});
    o.speeds.push_back(*speed);
  }
  return {};
}

// "node.json", or "fast:f.json,slow:s.json": the bandwidths of the nodes that jobs may share.
Result<> read_shared(const std::string &text, SchedOptions &o) {
  if (text.empty()) return {};
  o.steer.shared.resize(o.classes.size());
  for (std::string_view word : columns_of(text, ',')) {
    const size_t colon = std::min(word.find(':'), word.size());
    const bool named = colon < word.size() && std::ranges::any_of(o.classes, [&](const auto &c) {
                         return c.name == word.substr(0, colon);
                       });
    const std::string file(named ? word.substr(colon + 1) : word);
    Result<Bandwidths> bandwidths = read_bandwidths(file);
    if (!bandwidths) return Failure(std::move(bandwidths).error().in("--share"));
    for (size_t c = 0; c < o.classes.size(); c++)
      if (!named || o.classes[c].name == word.substr(0, colon)) o.steer.shared[c] = *bandwidths;
  }
  return {};
}

Result<SchedOptions> options_of(const Options &o) {
  SchedOptions s;
  CKPT_CHECK(read_classes(o.classes, s));
  CKPT_CHECK(read_shared(o.share, s));
  std::optional<PolicyName> policy = policy_named(o.policy);
  if (!policy)
    return fail_with_hint(fmt::format("there is no policy {:?}", o.policy),
                          "the policies are MCT, MCTB, MCTM, MCTBM and WMCT");
  s.steer.policy = *policy;
  s.steer.of.waste_weight = o.waste_weight;
  s.steer.requeue_delay = o.requeue_delay * kTicksPerSecond;
  s.grace = o.grace;
  s.settle = o.settle;
  s.megabytes = o.megabytes;
  s.dry_run = o.dry_run;
  s.times = o.times;
  if (o.interval * 2 > o.grace)
    return fail("--grace must be at least twice --interval, or jobs start without the daemon");
  s.storage = o.storage;
  return s;
}

Result<int> run(const Options &o) {
  CKPT_TRY(SchedOptions s, options_of(o));
  CKPT_TRY(std::vector<nlohmann::json> history, history_of(o.history));
  CKPT_TRY(Records records, Records::load(o.state.empty() ? usual_records_file() : o.state));
  Daemon daemon(std::move(s), std::move(records), std::move(history));
  if (o.release) {
    CKPT_CHECK(daemon.release_all());
    return 0;
  }
  catch_stop_signals();
  for (;;) {
    Result<> done = daemon.round();
    if (o.once && !done) return Failure(std::move(done).error());
    // Slurm's controller may be away for a while.
    if (!done) log::warn("{}", done.error().what);
    if (o.once || stop_requested) return 0;
    timespec pause{static_cast<time_t>(o.interval), 0};
    ::nanosleep(&pause, nullptr);
    if (stop_requested) return 0;
  }
}

}  // namespace
}  // namespace ckpt::tools

int main(int argc, char **argv) {
  using namespace ckpt::tools;
  Options o;
  CommandLine line(
      "ckpt-schedd",
      "Decides where Slurm's tagged jobs run, and moves them by checkpoints.\n"
      "Exit code 0: stopped by a signal, or success; 1: failure; 125: the arguments are "
      "wrong.");
  line.option("--classes=LIST", o.classes,
              "kinds of nodes as FEATURE:SPEED, separated by commas, the fastest first")
      .required();
  line.option("--policy=NAME", o.policy, "MCT, MCTB, MCTM, MCTBM or WMCT");
  line.option("--interval=SECONDS", o.interval, "the time between two readings of the queue")
      .range(1, 3600);
  line.option("--grace=SECONDS", o.grace,
              "how long jobs wait for a daemon that has died, until Slurm schedules them")
      .range(2, 86400);
  line.option("--settle=SECONDS", o.settle,
              "how long a job has run before it is moved: its script must have started ckpt-run")
      .range(0, 86400);
  line.option("--requeue-delay=SECONDS", o.requeue_delay,
              "the time that Slurm needs to start a job again: cred_expire + 1")
      .range(0, 86400);
  line.option("--history=FILE", o.history,
              "the history (of ckpt-history) to which the cost of moves is fitted")
      .default_is("this user's");
  line.option("--storage=TYPE", o.storage,
              "of the history, only what was stored on a file system of this type, such as nfs")
      .default_is("all");
  line.option("--state=FILE", o.state, "where the daemon keeps what it has done with jobs")
      .default_is(usual_records_file());
  line.option("--megabytes=MB", o.megabytes,
              "the assumed image size of a job without one in its tag")
      .range(0.0, 1e9)
      .default_is("what few programs of the history exceed; 1000");
  line.option(
      "--share=LIST", o.share,
      "jobs with figures of their memory traffic share nodes, by the contention model; LIST "
      "is the FILE of ckpt-node-bench for all classes, or FEATURE:FILE, separated by commas");
  line.option("--waste-weight=N", o.waste_weight, "WMCT: the weight of wasted node time")
      .range(0.0, 1e3);
  line.flag("--once", o.once, "read the queue once, decide, and exit");
  line.flag("--dry-run", o.dry_run, "print the decisions, and change nothing");
  line.flag("--times", o.times, "print how long the parts of each round take");
  line.flag("--release", o.release, "give all jobs that wait for the daemon to Slurm, and exit");
  return run_tool(line, argc, argv, 1, [&] { return run(o); });
}
