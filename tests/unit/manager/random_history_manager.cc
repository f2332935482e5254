// SPDX-License-Identifier: Apache-2.0
//
// The Manager's side of a random history: messages, orders, restarts, and the checked guarantees.
#include <algorithm>

#include "common/base/fnv.h"
#include "tests/unit/manager/random_history.h"

namespace ckpt::manager {

namespace in = managed::to_manager;
namespace out = managed::to_program;

// ---- the Manager

std::unique_ptr<Policy> History::new_policy() const {
  std::vector<Gpu> gpus;
  for (size_t i = 0; i < total_.size(); i++)
    gpus.push_back({.uuid = std::to_string(i),
                    .total = total_[i],
                    .free = total_[i],
                    .apis = apis_[i],
                    .measured = apis_[i] != managed::kOpenCl});
  return std::make_unique<Policy>(settings_, std::move(gpus));
}

void History::deliver(Sim &s) {
  if (s.sent.empty()) return;
  managed::ToManager message = std::move(s.sent.front());
  s.sent.pop_front();
  measure();
  GpuIndex place = place_of(s);
  if (place != kNoGpu && apis_[static_cast<size_t>(place)] != managed::kOpenCl)
    policy_->footprint(s.id, s.held);
  take_orders(policy_->receive(now_, s.id, message));
}

void History::measure() {
  decisions_++;
  for (size_t g = 0; g < free_.size(); g++)
    policy_->measured(static_cast<GpuIndex>(g), apis_[g] == managed::kOpenCl ? total_[g] : free_[g],
                      false);
}

void History::take_orders(const Orders &orders) {
  for (const Order &o : orders) {
    managed::ToProgram message = o.message;
    if (auto *m = std::get_if<out::OutOfMemory>(&message)) m->why.clear();
    Writer body = managed::encode(message);
    digest_ = fnv1a(fmt::format("{} {} {}", o.to, managed::number_of(message), text(body.bytes())),
                    digest_);
  }
  for (const Order &o : orders)
    for (Sim &s : sims_)
      if (s.id == o.to && s.at != At::Ended) s.received.push_back(o.message);
}

// All connections are lost. The programs join again and repeat their requests.
void History::restart() {
  settings_.startup_delay = std::chrono::milliseconds(1);
  policy_ = new_policy();
  for (Sim &s : sims_) {
    s.sent.clear();
    s.received.clear();
    s.credit = s.spare = 0;
    s.said = s.used;
    if (s.at == At::Start || s.at == At::Ended) continue;
    s.id = next_id_++;
    in::Join join{.version = managed::kVersion,
                  .used = s.used,
                  .variables = s.told,
                  .exclusive = s.exclusive};
    join.context_known = s.context.has_value();
    join.context = s.context.value_or(0);
    if (s.at == At::Assigned) join.standing = managed::Standing::Assigned;
    if (s.at == At::Running) join.standing = managed::Standing::Running;
    if (s.at == At::Suspended) {
      join.standing = managed::Standing::Evicted;
      join.kept = s.used;
    }
    if (s.gpu != kNoGpu) join.gpu = std::to_string(s.gpu);
    s.refused.clear();
    if (s.apis != managed::kCuda || s.knows_depths) s.sent.push_back(uses(s));
    s.sent.push_back(join);
    if (s.stays_on != kNoGpu) s.sent.push_back(in::Evicted{s.used, std::to_string(s.stays_on)});
    s.sent.push_back(in::Workload{s.profile});
    if (s.at == At::Connecting) s.sent.push_back(in::Connect{s.told, s.exclusive});
    if (s.starting) s.sent.push_back(in::AddApi{managed::kAllApis & ~s.apis});
    u64 wanted = s.variables + s.used;
    for (auto &[ticket, ask] : s.asks) {
      ask.granted = false;
      ask.wanted = wanted += ask.bytes;
      this->ask(s, ticket);
    }
  }
  for (Sim &s : sims_)
    while (!s.sent.empty()) deliver(s);
}

// ---- what is guaranteed

void History::take(Sim &s, u64 bytes) {
  if (s.gpu == kNoGpu) return;  // on a device that is not managed
  u64 &free = free_[static_cast<size_t>(s.gpu)];
  if (bytes > free)
    return broken(fmt::format("{} bytes were promised and {} are free", bytes, free));
  free -= bytes;
  s.held += bytes;
}

void History::give_all(Sim &s) {
  if (place_of(s) != kNoGpu) free_[static_cast<size_t>(place_of(s))] += s.held;
  s.held = 0;
  s.gpu = s.stays_on = kNoGpu;
}

void History::check() {
  Accounting accounting = policy_->accounting();
  if (accounting.assigned > settings_.programs_per_gpu * total_.size())
    broken("too many are assigned");
  for (const GpuAccount &g : accounting.gpus) {
    if (g.programs > settings_.programs_per_gpu) broken("too many programs on a GPU");
    if (g.contextless > settings_.contextless_per_gpu) broken("too many without a context");
  }
  for (const Sim &s : sims_)
    for (const Sim &other : sims_)
      if (s.exclusive && s.gpu != kNoGpu && s.held > 0 && &other != &s &&
          place_of(other) == s.gpu && other.held > 0)
        broken("an exclusive program is not alone");
}

}  // namespace ckpt::manager
