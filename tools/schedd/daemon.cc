// SPDX-License-Identifier: Apache-2.0
#include "tools/schedd/daemon.h"

#include <time.h>

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "common/base/log.h"
#include "common/base/print.h"
#include "common/base/printable.h"

namespace ckpt::tools {

using namespace schedule;

namespace {

constexpr unsigned kMostDoublings = 5;
// Jobs without a time limit that are not steered.
constexpr i64 kUnlimitedSeconds = 24 * 3600;

Ticks ticks(i64 seconds) { return seconds * kTicksPerSecond; }

// Decisions are the daemon's output.
template <class... A>
void say(fmt::format_string<A...> f, A &&...a) {
  print("{}\n", fmt::format(f, std::forward<A>(a)...));
  std::fflush(stdout);
}

}  // namespace

std::vector<Steered> Daemon::steered_of(const std::vector<QueuedJob> &jobs) {
  std::vector<Steered> steered;
  for (const QueuedJob &j : jobs) {
    Result<std::optional<Tag>> tag = parse_tag(j.comment);
    if (!tag && complained_.insert(j.id).second)
      log::warn("job {}: its comment cannot be read ({}); Slurm schedules it", j.id,
                printable(tag.error().what));
    if (tag && *tag && j.group != 0) {
      if (complained_.insert(j.group).second)
        log::warn("job {} is an array or a heterogeneous job; Slurm schedules it", j.group);
      continue;
    }
    // Its owner's choice. Nodes that this daemon has chosen are in its record.
    if (tag && *tag && is_waiting(j) && !j.required.empty() && !records_.of(j).placed) {
      if (complained_.insert(j.id).second)
        log::warn("job {} asks for certain nodes; Slurm schedules it", j.id);
      continue;
    }
    auto left = left_alone_.find(j.id);
    if (left != left_alone_.end() && now_ < left->second) continue;
    if (tag && *tag && (is_running(j) || (is_waiting(j) && (*tag)->held)))
      steered.push_back({j, **tag, records_.of(j)});
  }
  return steered;
}

// The first class that has the name of one of the node's features.
std::optional<ClassIndex> Daemon::class_of(const QueueNode &node) const {
  for (ClassIndex c = 0; c < options_.classes.size(); c++)
    if (std::ranges::find(node.features, options_.classes[c].name) != node.features.end()) return c;
  return {};
}

void Daemon::fit_costs(const std::vector<QueueNode> &nodes) {
  std::vector<std::set<std::string>> names(options_.classes.size());
  for (const QueueNode &n : nodes)
    if (std::optional<ClassIndex> c = class_of(n)) names[*c].insert(n.name);
  costs_.fit(options_.classes, names);
}

NodeKinds Daemon::kinds_of(const std::vector<QueueNode> &nodes,
                           const std::vector<Steered> &steered) const {
  std::set<Demands> demands;
  for (const Steered &s : steered) demands.insert(s.job.demands);
  return NodeKinds(
      nodes, [this](const QueueNode &n) { return class_of(n); }, demands);
}

NodeKinds Daemon::few_kinds_of(const std::vector<QueueNode> &nodes, std::vector<Steered> &steered) {
  NodeKinds kinds = kinds_of(nodes, steered);
  if (!kinds.are_too_many()) return kinds;
  std::erase_if(steered, [&](const Steered &s) {
    const bool excludes = !s.job.demands.excluded.empty();
    if (excludes && complained_.insert(s.job.id).second)
      log::warn(
          "job {} excludes nodes, and jobs exclude too many different ones; Slurm schedules it",
          s.job.id);
    return excludes;
  });
  return kinds_of(nodes, steered);
}

void Daemon::drop_without_place(std::vector<Steered> &steered, const NodeKinds &kinds) {
  std::erase_if(steered, [&](const Steered &s) {
    const QueuedJob &j = s.job;
    // Slurm has started it. Its nodes are in use, as those of jobs that are not steered.
    if (is_running(j)) return !runs_where_allowed(j, kinds);
    if (kinds.has_place_for(kinds.number_of(j.demands), j.nodes)) return false;
    if (complained_.insert(j.id).second)
      log::warn(
          "job {}: no {} nodes of one class are in its partition, not excluded and have the "
          "features that it asks for; Slurm schedules it",
          j.id, j.nodes);
    return true;
  });
}

std::vector<LiveNode> Daemon::nodes_of(const std::vector<QueueNode> &nodes, const NodeKinds &kinds,
                                       const std::vector<QueuedJob> &jobs,
                                       const std::vector<Steered> &steered) {
  // Of steered jobs, schedule/steer knows better.
  std::unordered_set<u64> steered_ids;
  std::unordered_set<std::string_view> ours;
  for (const Steered &s : steered) {
    steered_ids.insert(s.job.id);
    ours.insert(s.job.on.begin(), s.job.on.end());
  }
  std::unordered_map<std::string_view, i64> busy;
  for (const QueuedJob &j : jobs)
    if (is_running(j) && !steered_ids.contains(j.id))
      for (const std::string &n : j.on)
        busy[n] = std::max(busy[n], j.started + j.limit.value_or(kUnlimitedSeconds));
  std::vector<LiveNode> live;
  for (const QueueNode &n : nodes) {
    if (!n.usable) continue;
    std::optional<Kind> kind = kinds.of(n.name);
    if (!kind) continue;
    auto at = busy.find(n.name);
    // In use by a job that squeue does not show: one that ends, or another user's.
    bool unknown = n.in_use && at == busy.end() && !ours.contains(n.name);
    live.push_back({n.name, *kind,
                    at != busy.end() ? ticks(at->second)
                    : unknown        ? ticks(now_)
                                     : 0,
                    n.has});
  }
  return live;
}

// What the contention model needs to know, if the job may share its node.
std::optional<SharingJob> Daemon::sharing_of(const Steered &s) {
  const Tag &t = s.tag;
  if (!t.may_share() || s.job.exclusive || s.job.nodes != 1) return {};
  SharingJob j{{.uses_gpu = t.host_to_device_gb || t.device_to_host_gb,
                .seconds = *t.seconds,
                .memory_gb = t.memory_gb.value_or(0),
                .host_to_device_gb = t.host_to_device_gb.value_or(0),
                .device_to_host_gb = t.device_to_host_gb.value_or(0)},
               s.job.needs};
  for (ClassIndex c = 0; c < options_.steer.shared.size(); c++) {
    if (!options_.steer.shared[c]) continue;
    ContentionTask task = j.task;
    task.seconds /= options_.speeds[c];
    if (shares_of_core(task, std::max(1u, j.needs.cores), *options_.steer.shared[c]).scaled &&
        complained_.insert(s.job.id).second)
      log::warn(
          "job {}: to move what its tag says takes longer than its {:.0f} s on nodes of the "
          "class {}; its slowdown is overestimated there (check seconds and memory_gb)",
          s.job.id, task.seconds, options_.classes[c].name);
  }
  return j;
}

std::optional<LiveJob> Daemon::live(const Steered &s, const NodeKinds &kinds,
                                    const LiveKinds &usable) {
  const MoveCosts &usual = costs_.usual();
  LiveJob j;
  j.id = s.job.id;
  j.job.submit = ticks(s.job.submitted);
  j.job.nodes = s.job.nodes;
  j.job.megabytes =
      static_cast<float>(s.tag.megabytes.value_or(options_.megabytes.value_or(usual.megabytes)));
  j.job.compile_seconds = static_cast<float>(s.tag.compile.value_or(usual.compile));
  j.job.wait_seconds = static_cast<float>(s.tag.wait.value_or(usual.wait));
  double seconds =
      s.tag.seconds.value_or(static_cast<double>(s.job.limit.value_or(kUnlimitedSeconds)));
  const size_t demands = kinds.number_of(s.job.demands);
  for (Kind k = 0; k < kinds.count(); k++) {
    Ticks run = std::max<Ticks>(1, ticks_of(seconds / options_.speeds[kinds.class_of(k)]));
    j.run.push_back(kinds.allowed(demands, k) ? run : 0);
  }
  j.done = s.record.done;
  j.sharing = sharing_of(s);
  if (!is_running(s.job) && !s.is_placed(now_)) return j;
  j.running = run_of(s, usable);
  if (!j.running) return {};
  return j;
}

// Nothing if none of its nodes can be used: then none can be given to others. Where only some are
// drained or have no class, the job still has the others.
std::optional<LiveRun> Daemon::run_of(const Steered &s, const LiveKinds &usable) const {
  LiveRun run{0,
              ticks(is_running(s.job) ? s.job.started : now_),
              {},
              s.nodes(),
              s.record.leaving.has_value(),
              {}};
  if (s.record.at && s.record.slow) {
    run.since = ticks(*s.record.at);
    run.slowdown = s.record.slow;
  }
  if (s.record.until && !s.record.stays) run.until = ticks(*s.record.until);
  auto node =
      std::ranges::find_if(run.nodes, [&](const std::string &n) { return usable.contains(n); });
  if (node == run.nodes.end()) return {};
  run.on = usable.at(*node);
  return run;
}

// A waiting job is kept back for --grace, again and again; one that has left its nodes is taken
// back from the hold without an end that Slurm puts it into.
void Daemon::keep_held(Steered &s) {
  Record &r = s.record;
  if (!is_waiting(s.job) || s.is_placed(now_)) return;
  const bool left = r.leaving.has_value();
  if (!left && !r.placed && s.job.eligible > now_ + options_.grace / 2) return;
  if (left)
    say("job {} has left its nodes {} s after its signal; {:.1f} s were planned for its checkpoint",
        s.job.id, now_ - *r.leaving, r.planned.value_or(0));
  if (s.start_has_failed(now_)) count_failed_start(r);
  r.forget_nodes();
  slurm_.hold_for(s.job.id, options_.grace);
  if (left && s.job.held) slurm_.release(s.job.id);
}

// A job that Slurm has not started twice is left alone for longer and longer, as its nodes were
// lost for others meanwhile.
void Daemon::count_failed_start(Record &r) const {
  if (++r.failed_starts < 2) return;
  r.not_before = now_ + (options_.grace << std::min(r.failed_starts - 2, kMostDoublings));
}

bool Daemon::may_start(const Steered &s) const {
  return is_running(s.job) || s.is_placed(now_) || (!s.is_blocked() && now_ >= s.record.not_before);
}

void Daemon::apply_starts(const Decisions &d, const NodeKinds &kinds,
                          std::vector<Steered> &steered) {
  std::map<std::string, std::vector<std::string>> on;  // jobs by node
  for (const Steered &s : steered)
    if (is_running(s.job) || s.is_placed(now_))
      for (const std::string &n : s.nodes()) on[n].push_back(std::to_string(s.job.id));
  for (const Start &s : d.starts) {
    Record &r = steered_job(s.id, steered).record;
    r.placed = now_;
    r.nodes = s.nodes;
    if (s.until) r.until = *s.until / kTicksPerSecond;
    std::vector<std::string> &beside = on[s.nodes[0]];
    say("job {} starts on {} ({}){}{}", s.id, fmt::join(s.nodes, ","),
        options_.classes[kinds.class_of(s.on)].name,
        s.until ? fmt::format(", for {} s", *r.until - now_) : "",
        beside.empty() ? "" : fmt::format(", beside {}", fmt::join(beside, ", ")));
    beside.push_back(std::to_string(s.id));
    slurm_.start(s.id, s.nodes);
  }
}

void Daemon::apply_progress(const Decisions &d, std::vector<Steered> &steered) {
  for (const Progress &p : d.progress) {
    Steered &s = steered_job(p.id, steered);
    if (!is_running(s.job)) continue;  // it has its nodes, but Slurm has not started it yet
    s.record.done = p.done;
    s.record.at = p.since / kTicksPerSecond;
    s.record.slow = p.slowdown;
    say("job {} takes {:.2f} times as long as alone; {:.0f} % of it is done", p.id, p.slowdown,
        p.done * 100);
  }
}

void Daemon::apply(const Decisions &d, const NodeKinds &kinds, std::vector<Steered> &steered) {
  apply_starts(d, kinds, steered);
  apply_progress(d, steered);
  for (const Move &m : d.moves) {
    Steered &s = steered_job(m.id, steered);
    if (s.record.stays || !has_settled(s)) continue;
    s.record.done = m.done;
    s.record.at.reset();
    s.record.slow.reset();
    s.record.leaving = now_;
    s.record.planned = m.checkpoint_seconds;
    say("job {} is moved; {:.0f} % of it is done", m.id, m.done * 100);
    if (Result<> asked = move(s); !asked) leave_alone(m.id, asked.error().what);
  }
  for (const Extend &e : d.extensions) {
    Record &r = steered_job(e.id, steered).record;
    r.until.reset();
    if (e.until) r.until = *e.until / kTicksPerSecond;
  }
}

// A job that was placed is planned as a running one, but may not have begun.
bool Daemon::has_settled(const Steered &s) const {
  return is_running(s.job) && now_ >= s.job.started + options_.settle;
}

// The job is held when it has left: that it was told to must be known then, also to the next
// daemon.
Result<> Daemon::move(const Steered &s) {
  records_.set(s.job, s.record);
  CKPT_CHECK(save_records());
  return slurm_.checkpoint(s.job.id);
}

Result<> Daemon::save_records() { return options_.dry_run ? Result<>() : records_.save(); }

void Daemon::change_jobs(Laps &laps) {
  laps.add(Laps::kPlan);
  for (const auto &[job, why] : slurm_.change_jobs()) leave_alone(job, why);
  laps.add(Laps::kWrite);
}

void Daemon::leave_alone(u64 job, const std::string &why) {
  left_alone_[job] = now_ + options_.grace;
  if (complained_.insert(job).second)
    log::warn("job {} is left to Slurm, which refuses to change it: {}", job, printable(why));
}

// A job that does not leave has failed to write its image, and keeps running.
void Daemon::keep_where_it_is(Steered &s) {
  Record &r = s.record;
  if (!is_running(s.job)) return;
  r.failed_starts = 0;
  r.not_before = 0;
  if (!r.leaving || now_ <= *r.leaving + options_.grace) return;
  log::warn("job {} has not left its nodes in time; it stays there", s.job.id);
  r.leaving.reset();
  r.planned.reset();
  r.stays = true;
}

// The classes have as many nodes as can be used now.
Decisions Daemon::decide(const NodeKinds &kinds, const std::vector<LiveNode> &nodes,
                         std::vector<LiveJob> jobs) const {
  std::vector<ResourceClass> classes;
  SteerOptions options = options_.steer;
  options.shared.assign(options_.steer.shared.empty() ? 0 : kinds.count(), {});
  for (Kind k = 0; k < kinds.count(); k++) {
    const ClassIndex c = kinds.class_of(k);
    classes.push_back({options_.classes[c].name, 0, costs_.of(c)});
    if (c < options_.steer.shared.size()) options.shared[k] = options_.steer.shared[c];
  }
  for (const LiveNode &n : nodes) classes[n.on].nodes++;
  return steer(ticks(now_), classes, nodes, std::move(jobs), options);
}

Result<> Daemon::round() {
  Laps laps;
  now_ = ::time(nullptr);
  CKPT_TRY(std::vector<QueuedJob> jobs, slurm_.jobs(laps));
  CKPT_TRY(std::vector<QueueNode> queue_nodes, slurm_.nodes(laps));
  fit_costs(queue_nodes);
  std::vector<Steered> steered = steered_of(jobs);
  const NodeKinds kinds = few_kinds_of(queue_nodes, steered);
  drop_without_place(steered, kinds);
  std::vector<LiveNode> nodes = nodes_of(queue_nodes, kinds, jobs, steered);
  LiveKinds usable;
  for (const LiveNode &n : nodes) usable.emplace(n.name, n.on);
  std::vector<LiveJob> live_jobs;
  for (Steered &s : steered) {
    keep_where_it_is(s);
    keep_held(s);
  }
  // A job that Slurm does not let us change takes no nodes from the others.
  change_jobs(laps);
  for (const Steered &s : steered) {
    if (left_alone_.contains(s.job.id) && now_ < left_alone_[s.job.id]) continue;
    if (!may_start(s)) continue;
    if (std::optional<LiveJob> j = live(s, kinds, usable)) live_jobs.push_back(std::move(*j));
  }
  apply(decide(kinds, nodes, std::move(live_jobs)), kinds, steered);
  change_jobs(laps);
  records_.keep_only(jobs);
  for (const Steered &s : steered) records_.set(s.job, s.record);
  CKPT_CHECK(save_records());
  laps.add(Laps::kWrite);
  if (options_.times)
    say("a round of {} nodes and {} jobs, in seconds: {}", queue_nodes.size(), jobs.size(),
        laps.text());
  return {};
}

Result<> Daemon::release_all() {
  Laps laps;
  CKPT_TRY(std::vector<QueuedJob> jobs, slurm_.jobs(laps));
  for (Steered &s : steered_of(jobs)) {
    if (!is_waiting(s.job)) continue;
    const bool held = s.job.held && s.record.leaving.has_value();
    s.tag.held = false;
    slurm_.give_back(s.job, s.tag);
    if (held) slurm_.release(s.job.id);
    s.record.forget_nodes();
    s.record.stays = false;
    records_.set(s.job, s.record);
  }
  change_jobs(laps);
  return save_records();
}

}  // namespace ckpt::tools
