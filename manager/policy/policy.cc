// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/policy.h"

#include <algorithm>

#include "manager/policy/parts.h"

namespace ckpt::manager {

namespace in = managed::to_manager;

Policy::Policy(Settings settings, std::vector<Gpu> gpus)
    : parts_(std::make_unique<Parts>(std::move(settings), std::move(gpus))) {}
Policy::~Policy() = default;
Policy::Policy(Policy &&) noexcept = default;

Policy::Parts::Parts(Settings s, std::vector<Gpu> gpus)
    : state(std::move(s), std::move(gpus)),
      interference(state.settings.progress_interval),
      contexts(state),
      credits(state),
      progress(state, profiles, interference),
      work(state, profiles),
      placement(state, interference),
      cohort(state, placement, work),
      eviction(state, profiles, credits),
      exchange(state, eviction, placement, work),
      exclusivity(state, eviction, placement),
      rebalance(state, eviction, placement, work),
      deepening(state, placement),
      starvation(state, placement),
      denial(state, placement, credits),
      admission(state, placement, eviction, exclusivity, credits, cohort, exchange) {}

// ---- inputs

void Policy::measured(GpuIndex gpu, u64 free, bool foreign, bool dying) {
  Gpu &g = parts_->state.gpu(gpu);
  g.free = free;
  g.foreign = foreign;
  g.dying = dying;
}

void Policy::footprint(ProgramId program, u64 bytes) { parts_->contexts.measured(program, bytes); }

void Policy::computed(Time now, std::span<const KernelTime> all) {
  for (auto [id, kernels] : all)
    if (Program *p = parts_->find(id)) parts_->work.computed(now, *p, kernels);
  parts_->work.measured(now);
}

Orders Policy::receive(Time now, ProgramId from, const managed::ToManager &message) {
  Parts &parts = *parts_;
  parts.state.now = now;
  Program *p = parts.find(from);
  if (p == nullptr) p = parts.add(from, message);
  if (p == nullptr) return {};
  std::visit([&](const auto &m) { parts.on(*p, m); }, message);
  if (Program *still = parts.find(from)) parts.progress.note_peak(*still);
  return parts.decide();
}

Orders Policy::gone(Time now, ProgramId program) {
  parts_->state.now = now;
  parts_->announced.erase(program);
  if (Program *p = parts_->find(program)) parts_->remove(*p);
  return parts_->decide();
}

Orders Policy::tick(Time now) {
  parts_->state.now = now;
  return parts_->decide();
}

void Policy::learn(Time now, const std::vector<ProfileFacts> &all) {
  for (ProfileFacts facts : all) {
    facts.peak = sane(facts.peak);
    parts_->profiles.learn(now, facts);
  }
}

// ---- what is known

bool Policy::waits() const { return parts_->state.any_waits() || parts_->rebalance.is_possible(); }
const Settings &Policy::settings() const { return parts_->state.settings; }
const std::vector<Gpu> &Policy::gpus() const { return parts_->state.gpus; }
const Programs &Policy::programs() const { return parts_->state.programs; }
const Program *Policy::find(ProgramId id) const { return parts_->find(id); }
const WorkloadProfiles &Policy::profiles() const { return parts_->profiles; }

std::vector<Interference::Finding> Policy::findings() const {
  return parts_->interference.findings(parts_->state.now);
}

Accounting Policy::accounting() const {
  const State &s = parts_->state;
  return Accounting(s.gpus, s.programs, s.settings);
}

// ---- programs

Program *Policy::Parts::find(ProgramId id) const {
  auto it = by_id.find(id);
  return it == by_id.end() ? nullptr : it->second;
}

// Null: `message` is not Join.
Program *Policy::Parts::add(ProgramId id, const managed::ToManager &message) {
  if (const auto *uses = std::get_if<in::Uses>(&message)) announced[id] = uses->apis;
  const auto *join = std::get_if<in::Join>(&message);
  if (join == nullptr) return nullptr;
  auto made = std::make_unique<Program>();
  Program *p = made.get();
  p->id = id;
  p->arrived = state.now - std::chrono::milliseconds(std::min<u64>(join->age_ms, 1ull << 40));
  auto behind = std::ranges::upper_bound(state.programs, p->arrived, {},
                                         [](const auto &q) { return q->arrived; });
  state.programs.insert(behind, std::move(made));
  by_id[id] = p;
  if (auto uses = announced.extract(id)) on(*p, in::Uses{uses.mapped()});
  return p;
}

void Policy::Parts::remove(Program &p) {
  state.occupancy_changes(p);
  by_id.erase(p.id);
  std::erase_if(state.programs, [&](const auto &q) { return q.get() == &p; });
}

// ---- the decision

Orders Policy::Parts::decide() {
  if (!opens_at) opens_at = state.now + state.settings.startup_delay;
  if (state.now >= *opens_at) {
    progress.update_expectations();
    state.count();
    eviction.note_unresponsive();
    std::vector<Program *> waiting = starvation.waiting_in_order();
    admission.serve_running();
    admission.serve_waiting(waiting);
    credits.revoke();
    deepening.run(waiting);
    denial.deny_hopeless();
    denial.break_deadlocks();
    rebalance.run();
  }
  contexts.forget_measurements();
  return std::move(state.orders);
}

}  // namespace ckpt::manager
