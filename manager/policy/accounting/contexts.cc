// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/accounting/contexts.h"

namespace ckpt::manager {

namespace out = managed::to_program;

namespace {

// A driver that has not shown a context after this many checks shows none at all.
constexpr u32 kMaxChecks = 20;

}  // namespace

std::optional<u64> Contexts::footprint(const Program &p) const {
  auto measured = footprints_.find(p.id);
  return measured == footprints_.end() ? std::optional<u64>() : measured->second;
}

void Contexts::learn(u64 bytes) {
  for (Gpu &gpu : state_.gpus) {
    if (gpu.context_known) continue;
    gpu.context_known = true;
    gpu.context_bytes = bytes;
  }
}

// Variables that are never used never appear: after the last check they stay reserved.
void Contexts::check(Program &p) {
  auto *here = std::get_if<Assigned>(&p.state);
  if (here == nullptr || here->gpu == kNoGpu || (here->context && p.variables_seen))
    return confirm(p);
  std::optional<u64> bytes = footprint(p);
  bool last = ++here->context_checks >= kMaxChecks;
  if (!here->context && (!bytes || *bytes > p.used || last)) note_context(p, bytes);
  if (here->context) note_variables(p, bytes);
  if ((here->context && p.variables_seen) || last) return confirm(p);
  state_.send(p, out::CCheckFailed{});
}

// The cost of a context is what the process has beside its allocations. Device variables, credit
// and requests under way would count as part of it, so a program that has any of them teaches
// nothing.
void Contexts::note_context(Program &p, std::optional<u64> footprint) {
  state_.occupancy_changes(p);
  p.residence()->context = true;
  p.variables_seen = p.variables == 0;
  if (!footprint || p.variables > 0 || !p.requests.empty() || p.credit() > 0) return;
  Gpu &gpu = state_.gpu(p.gpu());
  gpu.context_bytes = *footprint > p.used ? *footprint - p.used : 0;
  gpu.context_known = true;
  for (Gpu &other : state_.gpus)
    if (!other.context_known) other.context_bytes = gpu.context_bytes;
}

// What was promised may be allocated already, and not be reported yet.
void Contexts::note_variables(Program &p, std::optional<u64> footprint) {
  u64 context = context_cost(state_.gpu(p.gpu()), state_.settings);
  u64 whole = context + p.variables + p.used + p.granted() + p.credit();
  p.variables_seen = p.variables_seen || !footprint || *footprint >= whole;
}

void Contexts::check_again(Program &p) {
  p.variables_seen = p.variables_seen || p.variables == 0;
  update_variables(p);
  if (!p.context() || p.gpu() == kNoGpu || p.variables_seen) return;
  p.residence()->context_checks = 0;
  state_.send(p, out::CCheckFailed{});
}

void Contexts::variables_loaded(Program &p) {
  if (p.context() && p.gpu() != kNoGpu) note_variables(p, footprint(p));
}

void Contexts::update_variables(Program &p) {
  std::optional<u64> bytes = footprint(p);
  if (p.context() && p.gpu() != kNoGpu && bytes) note_variables(p, bytes);
}

// The measurement is of the moment at which it says that it has left. Its arrays and pools count,
// too.
u64 Contexts::stay_of(const Program &p) const {
  if (p.gpu() == kNoGpu) return 0;
  return footprint(p).value_or(manager::stay_of(p, state_.gpu(p.gpu()), state_.settings));
}

void Contexts::confirm(const Program &p) {
  const Gpu *gpu = p.gpu() != kNoGpu ? &state_.gpu(p.gpu()) : nullptr;
  bool known = gpu != nullptr && gpu->context_known && gpu->measured;
  state_.send(p, out::CCheckOk{known, known ? gpu->context_bytes : 0});
}

}  // namespace ckpt::manager
