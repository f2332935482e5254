// SPDX-License-Identifier: Apache-2.0
#include "bench/mobile/replayer/node.h"

namespace ckpt::replay {

namespace in = managed::to_manager;
namespace out = managed::to_program;

namespace {

constexpr i64 kTick = 1'000'000'000;
// A day: the programs wait for each other.
constexpr i64 kTooLong = 86'400 * kTick;

i64 nanoseconds(double seconds) { return static_cast<i64>(seconds * 1e9); }
double in_seconds(i64 nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }
i32 pid(u32 program) { return static_cast<i32>(program + 1); }

std::vector<manager::Gpu> gpus_of(const Hardware &node) {
  std::vector<manager::Gpu> all;
  for (u32 g = 0; g < node.gpus; g++)
    all.push_back({.uuid = fmt::format("GPU-{}", g), .total = node.bytes, .free = node.bytes});
  return all;
}

}  // namespace

Node::Node(const Experiment &e)
    : experiment_(e),
      policy_(e.settings, gpus_of(e.node)),
      engines_(e.node.gpus),
      free_(e.node.gpus, e.node.bytes),
      kernels_(e.programs.size()),
      programs_(e.programs.size()),
      last_end_(e.node.gpus) {
  for (size_t i = 0; i < programs_.size(); i++) programs_[i].script = &e.programs[i];
}

Outcome Node::run() {
  running_ = static_cast<u32>(programs_.size());
  for (u32 p = 0; p < programs_.size(); p++) begin(p);
  at(kTick, Event::What::Tick, 0);
  while (running_ > 0 && !events_.empty()) {
    Event e = events_.top();
    events_.pop();
    now_ = e.at;
    handle(e);
  }
  outcome_.failed = running_;
  outcome_.mean_end /= static_cast<double>(programs_.size());
  for (size_t g = 0; g < engines_.size(); g++) {
    outcome_.busy.push_back(in_seconds(engines_[g].kernel_time(now_)));
    outcome_.ends.push_back(last_end_[g]);
  }
  return outcome_;
}

void Node::at(Nanoseconds when, Event::What what, u32 program) {
  events_.push({when, order_++, what, program});
}

void Node::handle(const Event &e) {
  switch (e.what) {
    case Event::What::Done: return end(e.program);
    case Event::What::Report: return report(e.program);
    case Event::What::Left: return left(e.program);
    case Event::What::Returned: return returned(e.program);
    case Event::What::Tick: break;
  }
  if (now_ > kTooLong) {
    events_ = {};
    return;
  }
  at(now_ + kTick, Event::What::Tick, 0);
  report_kernels();
  if (!policy_.waits()) return;
  measure(0);
  obey(policy_.tick(time()));
}

// ---- messages

void Node::begin(u32 p) {
  const Script &s = *programs_[p].script;
  say(p, in::Uses{managed::kCuda | managed::kKnowsDepths});
  say(p, in::Join{.version = managed::kVersion, .pid = p + 1, .name = s.name});
  say(p, in::Workload{s.workload});
  say(p, in::Connect{s.variables, s.exclusive});
}

void Node::measure(u32 about) {
  for (size_t g = 0; g < free_.size(); g++)
    policy_.measured(static_cast<manager::GpuIndex>(g), free_[g], false);
  const Program &p = programs_[about];
  if (p.gpu >= 0) policy_.footprint(about + 1, p.seen);
}

void Node::report_kernels() {
  std::vector<manager::KernelTime> all;
  std::vector<Nanoseconds> sums(programs_.size());
  for (softcuda::broker::Engines &e : engines_)
    for (auto [p, ns] : e.kernel_times(now_)) sums[static_cast<size_t>(p - 1)] += ns;
  for (size_t p = 0; p < sums.size(); p++) {
    Nanoseconds more = sums[p] - std::exchange(kernels_[p], sums[p]);
    if (more > 0)
      all.emplace_back(static_cast<manager::ProgramId>(p + 1), manager::Time(more / 1000));
  }
  policy_.computed(time(), all);
}

void Node::say(u32 p, const managed::ToManager &message) {
  measure(p);
  obey(policy_.receive(time(), p + 1, message));
}

void Node::obey(const manager::Orders &orders) {
  for (const manager::Order &o : orders) told(o.to - 1, o.message);
}

void Node::told(u32 p, const managed::ToProgram &message) {
  if (auto *m = std::get_if<out::Connect>(&message)) return placed(p, m->gpu);
  if (auto *m = std::get_if<out::GoAhead>(&message)) return m->ticket != 0 ? granted(p) : void();
  if (auto *m = std::get_if<out::Migrate>(&message)) return resume(p, m->gpu);
  if (std::get_if<out::Suspend>(&message) != nullptr) return suspend(p, false);
  if (std::get_if<out::SuspendMemory>(&message) != nullptr) return suspend(p, true);
  if (std::get_if<out::Signal>(&message) != nullptr) return say(p, in::Query{});
  if (std::get_if<out::Deepen>(&message) != nullptr) return deepen(p);
}

// ---- coming and going

void Node::hold(Program &p, u64 bytes) {
  p.seen += bytes;
  free_[static_cast<size_t>(p.gpu)] -= bytes;
}

void Node::give_back(Program &p, u64 bytes) {
  p.seen -= bytes;
  free_[static_cast<size_t>(p.gpu)] += bytes;
}

void Node::note_span(u32 p) {
  const Program &x = programs_[p];
  spans_.push_back({x.script->name, p, x.gpu, x.since, in_seconds(now_)});
}

void Node::placed(u32 p, const std::string &gpu) {
  Program &x = programs_[p];
  x.gpu = std::stoi(gpu.substr(4));
  x.does = Does::Runs;
  x.since = in_seconds(now_);
  x.context = true;
  hold(x, experiment_.node.context + x.script->variables);
  say(p, in::ContextCheck{});
  at(now_ + kTick, Event::What::Report, p);
  next(p);
}

void Node::suspend(u32 p, bool memory_only) {
  Program &x = programs_[p];
  x.told_to_leave = memory_only;
  if (!x.busy) leave(p);
}

bool Node::in_steps(const Program &p) const {
  const Script &s = *p.script;
  return p.done >= s.before.size() && p.done < length(s) - s.after.size();
}

// Nothing that it has submitted is still to be done.
bool Node::may_stop(const Program &p) const {
  const Script &s = *p.script;
  return !in_steps(p) || s.ahead == 1 ||
         (p.done - s.before.size()) % (s.ahead * s.step.size()) == 0;
}

// All memory of a program, as one copy.
Node::Nanoseconds Node::move(u32 p) {
  Program &x = programs_[p];
  double bytes = static_cast<double>(x.used + x.script->variables);
  Operation whole{Operation::On::Bus, bytes / experiment_.node.copy, 0};
  return engine(x).serve(pid(p), job_of(whole));
}

void Node::leave(u32 p) {
  Program &x = programs_[p];
  x.does = Does::Leaves;
  at(move(p), Event::What::Left, p);
}

void Node::left(u32 p) {
  Program &x = programs_[p];
  bool stays = *x.told_to_leave;
  x.told_to_leave.reset();
  x.does = Does::Away;
  u64 stay = stays ? experiment_.node.context + x.script->variables : 0;
  give_back(x, x.seen - stay);
  outcome_.evictions++;
  note_span(p);
  std::string where = fmt::format("GPU-{}", x.gpu);
  if (!stays) x.gpu = -1;
  u64 kept = x.used + x.script->variables;
  if (stays) return say(p, in::Evicted{kept, where});
  say(p, in::SuspendDone{kept});
}

void Node::deepen(u32 p) {
  Program &x = programs_[p];
  if (x.does != Does::Away || x.gpu < 0) return;
  give_back(x, x.seen);
  x.gpu = -1;
  say(p, in::Evicted{x.used + x.script->variables, ""});
}

void Node::resume(u32 p, const std::string &gpu) {
  Program &x = programs_[p];
  int to = std::stoi(gpu.substr(4));
  if (x.gpu >= 0 && x.gpu != to) give_back(x, x.seen);
  x.gpu = to;
  x.does = Does::Returns;
  hold(x, experiment_.node.context + x.script->variables + x.used - x.seen);
  at(move(p), Event::What::Returned, p);
}

void Node::returned(u32 p) {
  Program &x = programs_[p];
  x.does = Does::Runs;
  x.since = in_seconds(now_);
  bool asked = x.asked;
  say(p, in::MigDone{x.used});
  at(now_ + kTick, Event::What::Report, p);
  if (!asked) next(p);
}

void Node::granted(u32 p) {
  Program &x = programs_[p];
  if (!x.asked) return;
  x.asked = false;
  u64 bytes = x.script->allocations[x.allocated++];
  x.used += bytes;
  hold(x, bytes);
  say(p, in::MallocDone{static_cast<u32>(x.allocated), x.used});
  next(p);
}

// ---- working

size_t Node::length(const Script &s) const {
  return s.before.size() + s.step.size() * s.steps + s.after.size();
}

const Operation &Node::operation(const Script &s, size_t i) const {
  if (i < s.before.size()) return s.before[i];
  i -= s.before.size();
  if (i < s.step.size() * s.steps) return s.step[i % s.step.size()];
  return s.after[i - s.step.size() * s.steps];
}

void Node::next(u32 p) {
  Program &x = programs_[p];
  if (x.does != Does::Runs || x.busy || x.asked) return;
  bool works = x.done < length(*x.script);
  if (x.told_to_leave && may_stop(x)) return leave(p);
  if (x.told_to_leave) return start(p, operation(*x.script, x.done));
  if (x.allocated < x.script->allocations.size()) return allocate(p);
  if (works) return start(p, operation(*x.script, x.done));
  finish(p);
}

void Node::allocate(u32 p) {
  Program &x = programs_[p];
  x.asked = true;
  u64 bytes = x.script->allocations[x.allocated];
  say(p, in::CudaMalloc{static_cast<u32>(x.allocated + 1), bytes});
}

void Node::finish(u32 p) {
  Program &x = programs_[p];
  x.does = Does::Ended;
  note_span(p);
  last_end_[static_cast<size_t>(x.gpu)] = outcome_.makespan = in_seconds(now_);
  outcome_.mean_end += outcome_.makespan;
  give_back(x, x.seen);
  x.gpu = -1;
  running_--;
  say(p, in::Fin{x.used});
}

void Node::start(u32 p, const Operation &o) {
  Program &x = programs_[p];
  x.busy = true;
  bool host = o.on == Operation::On::Host;
  if (!host && may_stop(x)) {  // it submits several steps at once
    x.calls += in_steps(x) ? x.script->ahead : 1;
    x.last_call = now_;
  }
  x.copied += o.bytes;
  Nanoseconds done = host ? now_ + nanoseconds(o.seconds) : engine(x).serve(pid(p), job_of(o));
  at(done, Event::What::Done, p);
}

softcuda::broker::Job Node::job_of(const Operation &o) const {
  const Hardware &h = experiment_.node;
  softcuda::broker::Job job{.since = now_};
  double bus = o.seconds;
  if (o.on != Operation::On::Bus) {
    job.kernel = nanoseconds(o.seconds);
    job.switch_cost = nanoseconds(h.switch_cost);
    bus = o.on == Operation::On::Mapped ? o.seconds * h.mapped : 0;
  }
  job.bus = nanoseconds(bus);
  job.bus_switch_cost = nanoseconds(bus * h.crowd);
  return job;
}

void Node::end(u32 p) {
  programs_[p].busy = false;
  programs_[p].done++;
  next(p);
}

void Node::report(u32 p) {
  Program &x = programs_[p];
  if (x.does != Does::Runs) return;  // begins again when it has returned
  Nanoseconds interval = experiment_.settings.progress_interval.count() * 1000;
  at(now_ + interval, Event::What::Report, p);
  say(p, in::Progress{static_cast<u32>(x.calls), static_cast<u32>((now_ - x.last_call) / 1000),
                      x.copied});
}

}  // namespace ckpt::replay
