// SPDX-License-Identifier: Apache-2.0
//
// What each message of a program does to its state. What is granted because of it is decided after
// each message in the same way (Policy::Parts::decide()).
#include <algorithm>

#include "manager/policy/parts.h"

namespace ckpt::manager {

namespace in = managed::to_manager;
namespace out = managed::to_program;
using managed::Standing;

namespace {

// The number of threads of a program that may ask at the same time.
constexpr size_t kMaxRequests = 1024;

u32 sane_apis(u32 apis) {
  apis &= managed::kAllApis;
  return apis != 0 ? apis : managed::kCuda;
}

}  // namespace

// ---- joining

// Also from a program that a tool has suspended or resumed, or that had another Manager.
void Policy::Parts::on(Program &p, const in::Join &m) {
  p.pid = m.pid;
  p.name = m.name;
  p.priority = m.priority;
  p.used = sane(m.used);
  p.variables = sane(m.variables);
  p.exclusive = m.exclusive;
  if (m.context_known) contexts.learn(sane(m.context));
  p.variables_seen = false;
  p.requests.clear();
  p.cleared_gpu = kNoGpu;
  if (m.standing == Standing::Unassigned) return state.enter(p, Unassigned{});
  if (m.standing == Standing::Assigned || m.standing == Standing::Running) return join_on_gpu(p, m);
  Evicted evicted{.contents = {plausible_contents(m.kept), m.on_disk},
                  .wait = p.waiting() ? *p.wait() : Wait{},
                  .by_tool = m.standing == Standing::Suspended};
  state.enter(p, evicted);
}

void Policy::Parts::join_on_gpu(Program &p, const in::Join &m) {
  Assigned here;
  here.gpu = state.gpu_named(m.gpu);
  here.context = m.standing == Standing::Running;
  state.enter(p, here);
  contexts.check_again(p);
}

// A program had its contents on a GPU, so the largest GPU bounds them.
u64 Policy::Parts::plausible_contents(u64 bytes) const {
  u64 most = 0;
  for (const Gpu &gpu : state.gpus) most = std::max(most, gpu.total);
  return std::min(bytes, most);
}

void Policy::Parts::on(Program &p, const in::Uses &m) {
  p.knows_depths = p.knows_depths || (m.apis & managed::kKnowsDepths) != 0;
  u32 apis = sane_apis(m.apis);
  if (p.gpu() == kNoGpu || serves(state.gpu(p.gpu()), apis)) p.apis = apis;
}

// The program does not leave while it starts an API, so it will use the API on its present GPU.
void Policy::Parts::on(Program &p, const in::AddApi &m) {
  u32 both = p.apis | (m.api & managed::kAllApis);
  bool served = p.gpu() != kNoGpu && serves(state.gpu(p.gpu()), both);
  if (served) p.apis = both;
  state.send(p, out::ApiAdded{served});
}

void Policy::Parts::on(Program &p, const in::Workload &m) { progress.on(p, m); }
void Policy::Parts::on(Program &p, const in::Progress &m) { progress.on(p, m); }

void Policy::Parts::on(Program &p, const in::Fin &m) {
  progress.ended(p, sane(m.peak));
  remove(p);
}

// ---- asking for a GPU

void Policy::Parts::on(Program &p, const in::Connect &m) {
  p.variables = std::max(p.variables, sane(m.variables));
  p.exclusive = p.exclusive || m.exclusive;
  bool again = asks_again(p);
  if (p.on_gpu() && !again)
    return state.send(p, out::Connect{p.gpu() == kNoGpu ? "" : state.gpu(p.gpu()).uuid});
  if (!placement.suits_any(p)) return run_unmanaged(p);
  if (std::optional<std::string> why = denial.over_limit(p)) {
    state.enter(p, Unassigned{});
    return state.send(p, out::OutOfMemory{0, *why});
  }
  wait_for_gpu(p, again);
}

// A program without a context has nothing on its GPU: by asking again, for a device variable that
// was found, it gives up its assignment (MC-14). What a program has on a device that is not managed
// does not count either.
bool Policy::Parts::asks_again(Program &p) const {
  Residence *here = p.residence();
  if (here == nullptr) return false;
  if (p.is(Phase::Assigned) && here->gpu == kNoGpu && placement.suits_any(p)) {
    here->context = false;
    p.variables_seen = false;
    p.used = 0;
    p.requests.clear();
    return true;
  }
  auto *evicting = std::get_if<Evicting>(&p.state);
  return !here->context && (evicting == nullptr || !evicting->suspend_sent);
}

void Policy::Parts::wait_for_gpu(Program &p, bool again) {
  if (auto *pending = std::get_if<Pending>(&p.state)) pending->previous_gpu = kNoGpu;
  if (p.is(Phase::Pending) || p.is(Phase::Evicted)) return;
  Pending next;
  std::optional<Residence::Queued> queued;
  if (again) {
    next.previous_gpu = p.gpu();
    next.expected = p.residence()->expected;
    queued = p.residence()->queued;
  }
  if (queued) next.wait.starving_since = queued->starving_since;
  state.enter(p, next);
  if (queued) p.since = queued->since;
}

// The node's devices for its APIs are not managed.
void Policy::Parts::run_unmanaged(Program &p) {
  state.enter(p, Assigned{});
  for (Request &q : p.requests) q.granted = !q.refused;
  state.send(p, out::Connect{});
  admission.answer_requests(p);
}

void Policy::Parts::on(Program &p, const in::ContextCheck &) { contexts.check(p); }

// ---- asking for memory

void Policy::Parts::on(Program &p, const in::CudaMalloc &m) {
  ask(p, {.ticket = m.ticket, .bytes = sane(m.bytes)});
}

void Policy::Parts::on(Program &p, const in::Load &m) {
  ask(p, {.ticket = m.ticket, .bytes = sane(m.bytes), .alone = m.exclusive});
}

void Policy::Parts::ask(Program &p, const Request &request) {
  p.requests.push_back(request);
  if (p.requests.size() > kMaxRequests)
    return denial.deny(p, request.ticket,
                       "too many threads of this program wait for memory: allocate from fewer "
                       "threads at a time");
  bool unmanaged = p.is(Phase::Assigned) && p.gpu() == kNoGpu;
  if (unmanaged || p.is(Phase::Unassigned)) {
    p.requests.back().granted = true;
    return state.send(p, out::GoAhead{request.ticket});
  }
  if (std::optional<std::string> why = denial.over_limit(p)) denial.deny(p, request.ticket, *why);
}

void Policy::Parts::on(Program &p, const in::CudaFree &m) { p.used = sane(m.used); }

void Policy::Parts::on(Program &p, const in::MallocDone &m) {
  p.used = sane(m.used);
  std::erase_if(p.requests, [&](const Request &r) { return r.ticket == m.ticket; });
  contexts.update_variables(p);
}

// The driver creates new variables when they are first used; until then they stay reserved.
void Policy::Parts::on(Program &p, const in::LoadDone &m) {
  u64 before = std::exchange(p.variables, sane(m.variables));
  p.used = sane(m.used);
  p.late = p.late || (m.exclusive && !p.exclusive);
  p.exclusive = p.exclusive || m.exclusive;
  std::erase_if(p.requests, [&](const Request &r) { return r.ticket == m.ticket; });
  if (!p.wants_alone()) p.cleared_gpu = kNoGpu;
  if (p.variables > before) p.variables_seen = false;
  contexts.variables_loaded(p);
}

void Policy::Parts::on(Program &p, const in::CreditReturned &m) {
  credits.returned(p, sane(m.used));
  contexts.update_variables(p);
}

// ---- leaving and resuming

void Policy::Parts::on(Program &p, const in::Query &) {
  auto *e = std::get_if<Evicting>(&p.state);
  if (e != nullptr && !e->suspend_sent) {
    if (must_leave(p)) return eviction.send_suspend(p);
    Residence stay = *e;
    state.enter(p, Assigned{stay});
  }
  state.send(p, out::GoAhead{0});
}

// The reason of its eviction may have gone since it was signalled.
bool Policy::Parts::must_leave(const Program &p) const {
  bool moves = std::get<Evicting>(p.state).rebalancing;
  auto needs_it = [&](const auto &q) {
    bool here = !moves || (p.gpu() != kNoGpu && placement.suits(*q, p.gpu()));
    return here && (q->waiting() || q->blocked()) && !Eviction::resumes_first(p, *q);
  };
  return std::ranges::any_of(state.programs, needs_it) || rebalance.still_useful(p);
}

void Policy::Parts::on(Program &p, const in::SuspendDone &m) {
  if (p.residence() != nullptr) left(p, m.kept, {});
}

void Policy::Parts::left(Program &p, u64 kept, const Stay &stay) {
  Contents contents{plausible_contents(kept), p.contents().on_disk};
  state.enter(p, Evicted{.contents = contents, .stay = stay});
  p.cannot_leave.clear();
  p.refusals = 0;
  p.evictions++;
}

// Of a program that was evicted before, this Manager has measured nothing.
void Policy::Parts::on(Program &p, const in::Evicted &m) {
  Stay stay{.gpu = state.gpu_named(m.gpu)};
  if (p.residence() != nullptr) {
    if (stay.gpu != p.gpu()) stay.gpu = kNoGpu;
    stay.bytes = stay.gpu != kNoGpu ? contexts.stay_of(p) : 0;
    return left(p, m.kept, stay);
  }
  if (stay.gpu != kNoGpu) stay.bytes = context_cost(state.gpu(stay.gpu), state.settings);
  if (auto *e = std::get_if<Evicted>(&p.state)) e->stay = stay;
  if (auto *r = std::get_if<Resuming>(&p.state)) r->stay = stay;
}

void Policy::Parts::on(Program &p, const in::MigDone &m) {
  auto *r = std::get_if<Resuming>(&p.state);
  if (r == nullptr) return;
  Assigned here;
  here.gpu = r->gpu;
  here.context = true;
  state.enter(p, here);
  p.used = sane(m.used);
  p.failed.erase(p.gpu());
  admission.answer_requests(p);
  contexts.check_again(p);
}

void Policy::Parts::on(Program &p, const in::Failed &m) {
  auto *resuming = std::get_if<Resuming>(&p.state);
  auto *evicted = std::get_if<Evicted>(&p.state);
  if (evicted != nullptr && evicted->stay.deepening) return cannot_deepen(p, evicted->stay);
  if (resuming == nullptr && !p.is(Phase::Evicting)) return;
  p.retry_at = state.now + state.settings.retry_delay;
  if (resuming != nullptr) {
    if (resuming->gpu != kNoGpu) p.failed[resuming->gpu]++;
    return state.enter(p, Evicted{.contents = resuming->contents, .stay = resuming->stay});
  }
  p.cannot_leave = m.what;
  p.refusals++;
  Residence stay = *p.residence();
  state.enter(p, Assigned{stay});
}

void Policy::Parts::cannot_deepen(Program &p, Stay &stay) {
  p.retry_at = state.now + state.settings.retry_delay;
  stay.deepening = false;
  stay.fixed = ++stay.refusals >= state.settings.max_refusals;
}

// That GPU is not tried again, so the next one is tried at once.
void Policy::Parts::on(Program &p, const in::Unsuited &m) {
  auto *resuming = std::get_if<Resuming>(&p.state);
  GpuIndex g = state.gpu_named(m.gpu);
  if (resuming == nullptr || g == kNoGpu || g != resuming->gpu) return;
  p.unsuited[g] = m.why;
  state.enter(p, Evicted{.contents = resuming->contents, .stay = resuming->stay});
}

}  // namespace ckpt::manager
