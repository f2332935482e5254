// SPDX-License-Identifier: Apache-2.0
//
// What each message does to the state. Who gets what because of it is decided behind every message
// alike (waiting.cc).
#include <algorithm>

#include "common/base/gpu.h"
#include "manager/policy/policy.h"

namespace ckpt::manager {

namespace in = managed::to_manager;
namespace out = managed::to_program;
using managed::Standing;

namespace {

// A driver that shows no context so often shows none at all.
constexpr u32 kMostChecks = 20;
constexpr const char *kNoSuchGpu = "no GPU of this node has so much memory (ckpt-top shows them)";
// As many threads may ask at a time.
constexpr size_t kMostRequests = 1024;

u32 sane_apis(u32 apis) {
  apis &= managed::kAllApis;
  return apis != 0 ? apis : managed::kCuda;
}

}  // namespace

Policy::Policy(Settings settings, std::vector<Gpu> gpus)
    : settings_(std::move(settings)),
      interference_(settings_.progress_interval),
      gpus_(std::move(gpus)) {
  for (Gpu &gpu : gpus_)
    if (!gpu.measured) gpu.context_known = true, gpu.context_bytes = 0;
  for (u32 apis = 0; apis < servers_.size(); apis++) servers_[apis] = servers_of(apis);
}

Policy::Servers Policy::servers_of(u32 apis) const {
  Servers all;
  all.gpus = static_cast<size_t>(
      std::ranges::count_if(gpus_, [&](const Gpu &g) { return serves(g, apis); }));
  for (u32 other = 0; other < all.within.size(); other++)
    all.within[other] = std::ranges::all_of(
        gpus_, [&](const Gpu &g) { return !serves(g, other) || serves(g, apis); });
  return all;
}

void Policy::measured(GpuIndex gpu, u64 free, bool foreign, bool dying) {
  gpus_[static_cast<size_t>(gpu)].free = free;
  gpus_[static_cast<size_t>(gpu)].foreign = foreign;
  gpus_[static_cast<size_t>(gpu)].dying = dying;
}

void Policy::footprint(ProgramId program, u64 bytes) { footprints_[program] = bytes; }

const Program *Policy::find(ProgramId id) const {
  auto it = by_id_.find(id);
  return it == by_id_.end() ? nullptr : it->second;
}

Program *Policy::known(ProgramId id) { return const_cast<Program *>(find(id)); }

GpuIndex Policy::gpu_named(const std::string &uuid) const {
  auto it =
      std::ranges::find(gpus_, plain_uuid(uuid), [](const Gpu &g) { return plain_uuid(g.uuid); });
  return it == gpus_.end() ? kNoGpu : static_cast<GpuIndex>(it - gpus_.begin());
}

void Policy::company_changes(const Program &p) {
  if (p.gpu != kNoGpu) gpu_of(p).company++;
}

void Policy::go_to(Program &p, Phase phase) {
  company_changes(p);
  if (p.phase == Phase::Assigned) p.placed += now_ - p.since;
  p.phase = phase;
  p.since = now_;
  p.told = p.stuck = p.moves = false;
  if (phase != Phase::Evicting && phase != Phase::Assigned) p.credit = 0, p.credit_revoked = false;
  if (phase == Phase::Evicted || phase == Phase::Pending || phase == Phase::Unassigned)
    p.gpu = kNoGpu;
  if (phase == Phase::Assigned || phase == Phase::Resuming) p.reserved_gpu = p.target = kNoGpu;
  if (!p.waiting()) p.starving_since.reset();
}

// ---- inputs

Orders Policy::receive(Time now, ProgramId from, const managed::ToManager &message) {
  now_ = now;
  Program *p = known(from);
  if (p == nullptr) {
    if (const auto *uses = std::get_if<in::Uses>(&message)) announced_[from] = uses->apis;
    const auto *join = std::get_if<in::Join>(&message);
    if (join == nullptr) return {};
    auto made = std::make_unique<Program>();
    p = made.get();
    p->id = from;
    p->arrived = now - std::chrono::milliseconds(std::min<u64>(join->age_ms, 1ull << 40));
    auto behind = std::ranges::upper_bound(programs_, p->arrived, {},
                                           [](const auto &q) { return q->arrived; });
    programs_.insert(behind, std::move(made));
    by_id_[from] = p;
    if (auto told = announced_.extract(from)) p->apis = sane_apis(told.mapped());
  }
  std::visit([&](const auto &m) { on(*p, m); }, message);
  if (Program *still = known(from)) note_peak(*still);
  return finish();
}

Orders Policy::gone(Time now, ProgramId program) {
  now_ = now;
  announced_.erase(program);
  if (Program *p = known(program)) remove(*p);
  return finish();
}

Orders Policy::tick(Time now) {
  now_ = now;
  return finish();
}

Orders Policy::finish() {
  serve();
  footprints_.clear();
  return std::move(orders_);
}

bool Policy::waits() const { return anybody_waits() || may_balance(); }

bool Policy::anybody_waits() const {
  auto waits = [](const auto &p) {
    return p->waiting() || p->blocked() || p->phase == Phase::Evicting;
  };
  return std::ranges::any_of(programs_, waits);
}

void Policy::remove(Program &p) {
  company_changes(p);
  by_id_.erase(p.id);
  std::erase_if(programs_, [&](const auto &q) { return q.get() == &p; });
}

// ---- messages

// What it keeps it has had on a GPU, so the largest one bounds it.
u64 Policy::plausible_kept(u64 bytes) const {
  u64 most = 0;
  for (const Gpu &gpu : gpus_) most = std::max(most, gpu.total);
  return std::min(bytes, most);
}

// Also the word of a program that a tool has suspended or resumed, or that had another Manager.
void Policy::on(Program &p, const in::Join &m) {
  p.pid = m.pid;
  p.name = m.name;
  p.priority = m.priority;
  p.used = sane(m.used);
  p.variables = sane(m.variables);
  p.exclusive = m.exclusive;
  bool away = m.standing == Standing::Evicted || m.standing == Standing::Suspended;
  p.kept = away ? plausible_kept(m.kept) : 0;
  p.on_disk = m.on_disk;
  if (m.context_known) learn_context(sane(m.context));
  p.parked = m.standing == Standing::Suspended;
  p.context = m.standing == Standing::Running;
  p.variables_seen = false;
  p.requests.clear();
  p.target = kNoGpu;
  p.credit = 0;
  p.credit_revoked = false;
  switch (m.standing) {
    case Standing::Unassigned: return go_to(p, Phase::Unassigned);
    case Standing::Assigned:
    case Standing::Running:
      p.gpu = gpu_named(m.gpu);
      go_to(p, Phase::Assigned);
      return look_for_variables(p);
    case Standing::Evicted:
    case Standing::Suspended: return go_to(p, Phase::Evicted);
  }
}

void Policy::on(Program &p, const in::Uses &m) {
  u32 apis = sane_apis(m.apis);
  if (p.gpu == kNoGpu || serves(gpu_of(p), apis)) p.apis = apis;
}

// It does not leave while it starts an API, so where it is now it will be then.
void Policy::on(Program &p, const in::AddApi &m) {
  u32 both = p.apis | (m.api & managed::kAllApis);
  bool here = p.gpu != kNoGpu && serves(gpu_of(p), both);
  if (here) p.apis = both;
  send(p, out::ApiAdded{here});
}

// From a program that another Manager had: it holds until something was measured.
void Policy::learn_context(u64 bytes) {
  for (Gpu &gpu : gpus_) {
    if (gpu.context_known) continue;
    gpu.context_known = true;
    gpu.context_bytes = bytes;
  }
}

void Policy::on(Program &p, const in::Connect &m) {
  p.variables = std::max(p.variables, sane(m.variables));
  p.exclusive = p.exclusive || m.exclusive;
  // Without a context it has nothing on its GPU: asking again, it gives its place up by itself.
  bool again = !p.context && !p.told && (p.phase == Phase::Assigned || p.phase == Phase::Evicting);
  if (p.phase == Phase::Assigned && p.gpu == kNoGpu && suits_any(p)) {
    // What it has is by an API that is not managed here.
    p.context = p.variables_seen = false;
    p.used = 0;
    p.requests.clear();
    again = true;
  }
  if (p.on_gpu() && !again) return send(p, out::Connect{p.gpu == kNoGpu ? "" : gpu_of(p).uuid});
  if (!suits_any(p)) {  // this node's devices of that profile are not ours to give
    go_to(p, Phase::Assigned);
    p.gpu = kNoGpu;
    for (Request &q : p.requests) q.granted = !q.refused;
    send(p, out::Connect{});
    return answer_requests(p);
  }
  if (std::optional<std::string> why = over_limit(p)) {
    go_to(p, Phase::Unassigned);
    return send(p, out::OutOfMemory{0, *why});
  }
  p.previous_gpu = again ? p.gpu : kNoGpu;
  if (p.phase == Phase::Pending || p.phase == Phase::Evicted) return;
  go_to(p, Phase::Pending);
  if (!again || !p.first_since) return;
  p.since = *p.first_since;
  p.starving_since = p.first_elder_since;
}

void Policy::on(Program &p, const in::CudaMalloc &m) { ask(p, {m.ticket, sane(m.bytes)}); }

void Policy::on(Program &p, const in::Load &m) {
  ask(p, {.ticket = m.ticket, .bytes = sane(m.bytes), .alone = m.exclusive});
}

void Policy::ask(Program &p, const Request &request) {
  p.requests.push_back(request);
  if (p.requests.size() > kMostRequests)
    return deny(p, p.requests.back(), "too many threads ask at a time: let fewer allocate at once");
  // On a device that is not ours to give.
  if (p.gpu == kNoGpu && (p.phase == Phase::Assigned || p.phase == Phase::Unassigned)) {
    p.requests.back().granted = true;
    return send(p, out::GoAhead{request.ticket});
  }
  if (std::optional<std::string> why = over_limit(p)) return deny(p, p.requests.back(), *why);
}

// Variables that the driver makes when they are first used stay reserved until they are seen.
void Policy::on(Program &p, const in::LoadDone &m) {
  u64 before = std::exchange(p.variables, sane(m.variables));
  p.used = sane(m.used);
  p.late = p.late || (m.exclusive && !p.exclusive);
  p.exclusive = p.exclusive || m.exclusive;
  std::erase_if(p.requests, [&](const Request &r) { return r.ticket == m.ticket; });
  if (!p.wants_alone()) p.target = kNoGpu;
  if (p.variables > before) p.variables_seen = false;
  if (p.context && p.gpu != kNoGpu) see_variables(p, footprint_measured(p));
}

void Policy::on(Program &p, const in::CudaFree &m) { p.used = sane(m.used); }

void Policy::on(Program &p, const in::MallocDone &m) {
  p.used = sane(m.used);
  std::erase_if(p.requests, [&](const Request &r) { return r.ticket == m.ticket; });
  see_variables_again(p);
}

void Policy::on(Program &p, const in::MigDone &m) {
  if (p.phase != Phase::Resuming) return;
  go_to(p, Phase::Assigned);
  p.used = sane(m.used);
  p.kept = 0;
  p.context = true;
  p.failed.erase(p.gpu);
  answer_requests(p);
  look_for_variables(p);
}

// It has its place; its threads go on, or hear that they waited in vain.
void Policy::answer_requests(Program &p) {
  for (const Request &r : p.requests) {
    if (r.refused) send(p, out::OutOfMemory{r.ticket, kNoSuchGpu});
    if (r.granted) send(p, out::GoAhead{r.ticket});
  }
  std::erase_if(p.requests, [](const Request &r) { return r.refused; });
}

void Policy::on(Program &p, const in::SuspendDone &m) {
  if (p.phase != Phase::Evicting && p.phase != Phase::Assigned) return;
  go_to(p, Phase::Evicted);
  p.kept = plausible_kept(m.kept);
  p.context = false;
  p.cannot_leave.clear();
  p.refusals = 0;
  p.evictions++;
}

// It asks until its context is seen, and its device variables, which come a little later. Those
// that are never used never come: after so many checks they stay reserved.
void Policy::on(Program &p, const in::ContextCheck &) {
  bool all_seen = p.context && p.variables_seen;
  if (p.phase != Phase::Assigned || p.gpu == kNoGpu || all_seen) return confirm(p);
  std::optional<u64> bytes = footprint_measured(p);
  bool last = ++p.checks >= kMostChecks;
  if (!p.context && (!bytes || *bytes > p.used || last)) see_context(p, bytes);
  if (p.context) see_variables(p, bytes);
  if ((p.context && p.variables_seen) || last) return confirm(p);
  send(p, out::CCheckFailed{});
}

// What a context costs is what the process has beside its allocations. Device variables, and memory
// that is being allocated, would be counted in: who has some teaches nothing.
void Policy::see_context(Program &p, std::optional<u64> footprint) {
  company_changes(p);
  p.context = true;
  p.variables_seen = p.variables == 0;
  if (!footprint || p.variables > 0 || !p.requests.empty() || p.credit > 0) return;
  gpu_of(p).context_bytes = *footprint > p.used ? *footprint - p.used : 0;
  gpu_of(p).context_known = true;
  for (Gpu &other : gpus_)
    if (!other.context_known) other.context_bytes = gpu_of(p).context_bytes;
}

// What was promised may be there already, and is not yet told.
void Policy::see_variables(Program &p, std::optional<u64> footprint) {
  u64 promised = p.granted() + p.credit;
  u64 whole = context_cost(gpu_of(p), settings_) + p.variables + p.used + promised;
  p.variables_seen = p.variables_seen || !footprint || *footprint >= whole;
}

// It may have left before it had its variables, or its Manager died: it asks as at the beginning.
void Policy::look_for_variables(Program &p) {
  p.variables_seen = p.variables_seen || p.variables == 0;
  see_variables_again(p);
  if (!p.context || p.gpu == kNoGpu || p.variables_seen) return;
  p.checks = 0;
  send(p, out::CCheckFailed{});
}

void Policy::see_variables_again(Program &p) {
  std::optional<u64> bytes = footprint_measured(p);
  if (p.context && p.gpu != kNoGpu && bytes) see_variables(p, bytes);
}

std::optional<u64> Policy::footprint_measured(const Program &p) const {
  auto measured = footprints_.find(p.id);
  return measured == footprints_.end() ? std::optional<u64>() : measured->second;
}

void Policy::confirm(const Program &p) {
  bool known = p.gpu != kNoGpu && gpu_of(p).context_known && gpu_of(p).measured;
  send(p, out::CCheckOk{known, known ? gpu_of(p).context_bytes : 0});
}

void Policy::on(Program &p, const in::Query &) {
  auto waits = [&](const auto &q) {
    bool here = !p.moves || (p.gpu != kNoGpu && suits(*q, p.gpu));
    return here && (q->waiting() || q->blocked()) && !leaves_in_vain(p, *q);
  };
  bool wanted = std::ranges::any_of(programs_, waits) || may_still_move(p);
  if (p.phase == Phase::Evicting && !p.told && wanted) {
    p.told = true;
    return send(p, out::Suspend{p.on_disk ? settings_.disk_folder : ""});
  }
  if (p.phase == Phase::Evicting && !p.told) {
    p.kept = 0;
    go_to(p, Phase::Assigned);
  }
  send(p, out::GoAhead{0});
}

// What it took at most it knows best: some of what we know was asked for and denied.
void Policy::on(Program &p, const in::Fin &m) {
  profiles_.over(profile_of(p), p.calls, m.peak != 0 ? sane(m.peak) : p.peak);
  remove(p);
}

void Policy::on(Program &p, const in::Failed &m) {
  bool returning = p.phase == Phase::Resuming;
  if (!returning && p.phase != Phase::Evicting) return;
  p.not_before = now_ + settings_.retry_delay;
  if (returning && p.gpu != kNoGpu) p.failed[p.gpu]++;
  if (returning) return go_to(p, Phase::Evicted);
  p.cannot_leave = m.what;
  p.refusals++;
  p.kept = 0;
  go_to(p, Phase::Assigned);
}

// There it is not tried again, so the next one may be at once.
void Policy::on(Program &p, const in::Unsuited &m) {
  GpuIndex g = gpu_named(m.gpu);
  if (p.phase != Phase::Resuming || g == kNoGpu || g != p.gpu) return;
  p.unsuited[g] = m.why;
  go_to(p, Phase::Evicted);
}

}  // namespace ckpt::manager
