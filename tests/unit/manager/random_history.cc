// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/manager/random_history.h"

#include <algorithm>
#include <numeric>

namespace ckpt::manager {

namespace in = managed::to_manager;
namespace out = managed::to_program;

namespace {

constexpr u32 kMostTurns = 60'000;  // a history that has not ended by then never will

}  // namespace

// ---- a node and its programs

History::History(u64 seed) : random_(seed) {
  context_ = upto(8);
  settings_.context_bytes = context_ + upto(6);
  settings_.programs_per_gpu = static_cast<u32>(1 + upto(4));
  settings_.contextless_per_gpu = static_cast<u32>(1 + upto(4));
  settings_.victim = one_in(2) ? Victim::Cheapest : Victim::Requester;
  settings_.starvation_limit = std::chrono::milliseconds(upto(20'000));
  settings_.min_residency = std::chrono::milliseconds(upto(500));
  settings_.eviction_timeout = std::chrono::milliseconds(2'000 + upto(5'000));
  settings_.placement = static_cast<PlacementMode>(upto(2));
  settings_.progress_interval = std::chrono::milliseconds(1 + upto(200));
  settings_.pairing_limit = std::chrono::milliseconds(upto(20'000));
  settings_.rebalance_after = one_in(2) ? Time{0} : std::chrono::milliseconds(1 + upto(1'000));
  if (one_in(4)) settings_.time_slice = std::chrono::milliseconds(500 + upto(3'000));
  if (one_in(4)) {
    settings_.host_bytes = upto(150);
    strict_ = false;
  }
  if (one_in(2)) {
    settings_.disk_folder = "/disk";
    settings_.disk_bytes = upto(100);
  }
  if (one_in(8)) settings_.program_bytes = 40 + upto(100);
  if (one_in(3)) settings_.credit_bytes = 1 + upto(50);
  for (u64 n = 1 + upto(2); n > 0; n--) total_.push_back(60 + upto(140));
  free_ = total_;
  apis_.assign(total_.size(), managed::kCuda);
  bool fixed = one_in(5);
  for (u64 n = 2 + upto(8); n > 0; n--) {
    Sim &s = sims_.emplace_back();
    s.exclusive = one_in(10);
    s.fixed = fixed && one_in(3);
    s.variables = one_in(3) ? upto(30) : 0;
    s.profile = upto(3);
    s.left = static_cast<u32>(1 + upto(8));
    s.late = !s.exclusive && one_in(8);
    if (s.exclusive || s.fixed || s.late) strict_ = false;
  }
  if (one_in(2)) mix();
  if (one_in(2))
    for (Sim &s : sims_) s.knows_depths = !one_in(4);
  policy_ = new_policy();
}

// Programs and GPUs of both APIs.
void History::mix() {
  for (u32 &apis : apis_) apis = static_cast<u32>(1 + upto(2));
  for (Sim &s : sims_) {
    if (one_in(6)) {
      s.further = static_cast<u32>(1 + upto(1));
      strict_ = false;
    }
    s.picky = one_in(4);
    if (one_in(2)) continue;
    s.apis = managed::kOpenCl;
    s.exclusive = false;
    s.variables = 0;
  }
}

bool History::served(const Sim &s, GpuIndex gpu) const {
  return (s.apis & ~apis_[static_cast<size_t>(gpu)]) == 0;
}

// Where nothing is measured, the cost of a context is unknown.
u64 History::context_on(GpuIndex gpu) const {
  return gpu != kNoGpu && apis_[static_cast<size_t>(gpu)] == managed::kOpenCl ? 0 : context_;
}

void History::broken(const std::string &what) {
  if (broken_.empty()) broken_ = what;
}

GpuIndex History::gpu_named(const std::string &uuid) const {
  return uuid.empty() ? kNoGpu : std::stoi(uuid);
}

std::string History::run() {
  auto ended = [](const Sim &s) { return s.at == At::Ended && s.sent.empty(); };
  for (u32 i = 0; i < kMostTurns && broken_.empty(); i++) {
    if (std::ranges::all_of(sims_, ended)) {
      if (!policy_->programs().empty()) broken("a program that has ended is still known");
      if (std::accumulate(free_.begin(), free_.end(), u64{0}) !=
          std::accumulate(total_.begin(), total_.end(), u64{0}))
        broken("memory was not given back");
      return broken_;
    }
    turn();
    check();
  }
  if (broken_.empty()) broken("a program never ended: it starves, or was lost");
  return broken_;
}

// Anything may happen next.
void History::turn() {
  now_ += std::chrono::milliseconds(upto(20));
  Sim &s = sims_[random_() % sims_.size()];
  if (one_in(3'000)) return restart();
  if (one_in(2'000) && s.at != At::Start && s.at != At::Ended) return end(s, true);
  switch (upto(3)) {
    case 0: return live(s);
    case 1: return hear(s);
    case 2: return deliver(s);
    default: measure(); return take_orders(policy_->tick(now_));
  }
}

// ---- a program

void History::live(Sim &s) {
  switch (s.at) {
    case At::Start:
      s.id = next_id_++;
      s.at = At::Connecting;
      s.sent.push_back(
          in::Join{.version = managed::kVersion, .priority = static_cast<i32>(upto(3)) - 1});
      if (s.apis != managed::kCuda || s.knows_depths) s.sent.push_back(uses(s));
      if (one_in(2)) std::swap(s.sent.front(), s.sent.back());  // either order will do
      s.sent.push_back(in::Workload{s.profile});
      s.sent.push_back(in::Connect{0, s.exclusive});
      return;
    case At::Assigned: return make_context(s);
    case At::Running: return live_on(s);
    default: return;
  }
}

// The cost of a context is unknown in advance, so a program on an empty GPU may find too little
// memory for it. On a GPU that is large enough this never happens.
bool History::never_had(GpuIndex gpu, u64 bytes) const {
  return gpu != kNoGpu && bytes > total_[static_cast<size_t>(gpu)] &&
         !policy_->gpus()[static_cast<size_t>(gpu)].context_known;
}

// It was granted, then its program was evicted and has become too large: the driver denies it now,
// and the Manager a moment later.
bool History::taken_back(const Sim &s, u32 ticket) {
  return std::ranges::any_of(s.received, [ticket](const managed::ToProgram &m) {
    auto *no = std::get_if<out::OutOfMemory>(&m);
    return no != nullptr && no->ticket == ticket;
  });
}

// Like the agent and the libraries: asks again, and gives up after some attempts.
bool History::retried(Sim &s, u32 ticket, const Ask &ask) {
  u64 bytes = s.held + ask.bytes;
  // The cost of the context was learned after the grant: it is refused when the program has
  // resumed.
  bool outdated =
      s.gpu != kNoGpu && ask.before_eviction && bytes > total_[static_cast<size_t>(s.gpu)];
  if (!outdated && !never_had(s.gpu, bytes)) return false;
  if (ask.alone) s.exclusive = false;
  did(s, ticket, ask);
  if (!ask.load && ask.attempts < 8) {
    s.asks[++s.tickets] = {ask.bytes, ask.wanted, false, ask.attempts + 1};
    s.sent.push_back(in::CudaMalloc{s.tickets, ask.bytes});
  }
  s.asks.erase(ticket);
  return true;
}

void History::make_context(Sim &s) {
  u64 context = context_on(s.gpu);
  if (never_had(s.gpu, context + s.variables)) return end(s, false);
  take(s, context + s.variables);
  s.at = At::Running;
  s.sent.push_back(in::ContextCheck{});
}

// It does not leave until the answer.
void History::start_further(Sim &s) {
  s.starting = true;
  s.sent.push_back(in::AddApi{s.further});
  s.further = 0;
}

void History::live_on(Sim &s) {
  if (s.starting) return;
  if (s.further != 0 && (s.apis & s.further) == 0 && one_in(4)) return start_further(s);
  auto granted = std::ranges::find_if(s.asks, [](auto &a) { return a.second.granted; });
  if (granted != s.asks.end()) {
    if (taken_back(s, granted->first) || retried(s, granted->first, granted->second)) return;
    u64 bytes = granted->second.bytes;
    take(s, bytes);
    (granted->second.load ? s.variables : s.used) += bytes;
    if (granted->second.load) s.told += bytes;
    did(s, granted->first, granted->second);
    s.asks.erase(granted);
    return;
  }
  if (s.asks.size() > upto(1)) return;  // its threads wait
  if (!s.checked && one_in(3)) s.sent.push_back(in::ContextCheck{});
  if (one_in(4)) return report(s);  // computes
  if (one_in(3) && s.used > 0) return free_some(s);
  if (s.left-- == 0) return end(s, false);
  allocate(s);
}

// Any numbers: two of a workload are slower together now and then, and some reports are false.
void History::report(Sim &s) {
  if (one_in(2)) {  // not always does the driver say what it has computed
    KernelTime told[] = {{s.id, Time(static_cast<i64>(upto(2'000'000)))}};
    policy_->computed(now_, told);
  }
  s.calls = one_in(50) ? random_() : s.calls + upto(400);
  u32 idle = static_cast<u32>(one_in(10) ? random_() : upto(20'000));
  s.sent.push_back(
      in::Progress{s.calls, idle, one_in(10) ? random_() : s.calls * (s.profile << 20)});
}

void History::give_back(Sim &s) {
  s.credit = s.spare = 0;
  s.sent.push_back(in::CreditReturned{s.said = s.used});
}

void History::free_some(Sim &s) {
  u64 bytes = upto(s.used);
  s.used -= bytes;
  s.held -= bytes;
  if (s.gpu != kNoGpu) free_[static_cast<size_t>(s.gpu)] += bytes;
  u64 room = s.credit - s.spare;
  s.spare += std::min(room, bytes);
  if (s.credit > 0 && bytes <= room) return;
  s.sent.push_back(in::CudaFree{s.said = s.used});
}

void History::allocate(Sim &s) {
  if (s.spare > 0 && !one_in(3)) {
    u64 bytes = 1 + upto(s.spare - 1);
    unasked_++;
    for (auto &[ticket, ask] : s.asks) ask.wanted += bytes;
    s.spare -= bytes;
    s.used += bytes;
    return take(s, bytes);
  }
  if (s.credit > 0) give_back(s);
  u32 ticket = ++s.tickets;
  Ask &ask = s.asks[ticket];
  ask.bytes = 1 + upto(60);
  ask.load = one_in(6);
  ask.alone = s.late && one_in(3);
  if (ask.alone) {
    ask.load = true;
    s.late = false;
  }
  ask.wanted = s.variables + s.used;
  for (auto &[t, other] : s.asks) ask.wanted += other.bytes;
  this->ask(s, ticket);
}

void History::ask(Sim &s, u32 ticket) {
  const Ask &ask = s.asks[ticket];
  if (ask.load)
    s.sent.push_back(in::Load{ticket, ask.bytes, ask.alone});
  else
    s.sent.push_back(in::CudaMalloc{ticket, ask.bytes});
}

void History::did(Sim &s, u32 ticket, const Ask &ask) {
  s.said = s.used;
  if (ask.load)
    s.sent.push_back(in::LoadDone{ticket, s.used, s.variables, s.exclusive});
  else
    s.sent.push_back(in::MallocDone{ticket, s.used});
}

void History::end(Sim &s, bool killed) {
  give_all(s);
  s.at = At::Ended;
  s.sent.clear();
  s.received.clear();
  measure();
  take_orders(killed ? policy_->gone(now_, s.id) : policy_->receive(now_, s.id, in::Fin{}));
}

void History::hear(Sim &s) {
  if (s.received.empty()) return;
  managed::ToProgram message = std::move(s.received.front());
  s.received.pop_front();
  hear(s, message);
}

void History::hear(Sim &s, const managed::ToProgram &message) {
  if (auto *m = std::get_if<out::Connect>(&message)) {
    connected(s, gpu_named(m->gpu));
    if (s.told == s.variables) return answer_signal(s);
    s.at = At::Connecting;  // a device variable was found
    s.told = std::min(s.variables, s.told + 1 + upto(20));
    s.sent.push_back(in::Connect{s.told, s.exclusive});
  } else if (auto *m = std::get_if<out::GoAhead>(&message)) {
    auto ask = s.asks.find(m->ticket);
    if (ask == s.asks.end()) return;
    ask->second.granted = true;
    if (ask->second.alone) s.exclusive = true, late_exclusives_++;
  } else if (auto *m = std::get_if<out::OutOfMemory>(&message)) {
    denied(s, m->ticket);
  } else if (auto *m = std::get_if<out::Credit>(&message)) {
    s.credit = s.spare = m->bytes;
  } else if (std::get_if<out::RevokeCredit>(&message) != nullptr) {
    if (s.credit > 0) give_back(s);
  } else if (std::get_if<out::Signal>(&message) != nullptr) {
    s.signalled = true;
    answer_signal(s);
  } else if (std::get_if<out::Suspend>(&message) != nullptr) {
    suspended(s, false);
  } else if (std::get_if<out::SuspendMemory>(&message) != nullptr) {
    suspended(s, true);
  } else if (std::get_if<out::Deepen>(&message) != nullptr) {
    deepened(s);
  } else if (auto *m = std::get_if<out::Migrate>(&message)) {
    migrated(s, gpu_named(m->gpu));
  } else if (auto *m = std::get_if<out::ApiAdded>(&message)) {
    if (m->managed) s.apis = managed::kAllApis;
    if (m->managed && s.gpu != kNoGpu && !served(s, s.gpu)) broken("an API that is not served");
    s.starting = false;
    answer_signal(s);
  } else if (auto *m = std::get_if<out::CCheckOk>(&message)) {
    s.checked = true;
    if (m->known) s.context = m->context;
  }
}

void History::connected(Sim &s, GpuIndex gpu) {
  for (GpuIndex g = 0; g < static_cast<GpuIndex>(total_.size()); g++)
    if (gpu == kNoGpu && served(s, g)) broken("a program that could be managed was not");
  if (gpu != kNoGpu && !served(s, gpu)) broken("a program's GPU does not serve it");
  s.gpu = s.first = gpu;
  s.at = At::Assigned;
}

// Not while it asks for a GPU, because the answer to Query would overtake the answer to Connect.
void History::answer_signal(Sim &s) {
  if (s.at != At::Connecting && !s.starting && std::exchange(s.signalled, false))
    s.sent.push_back(in::Query{});
}

// In a strict history, only what fits nowhere may be denied.
void History::denied(Sim &s, u32 ticket) {
  denials_++;
  u64 wanted = ticket == 0 ? s.told : s.asks[ticket].wanted;
  u64 limit = settings_.program_bytes;
  u64 largest = 0;
  for (GpuIndex g = 0; g < static_cast<GpuIndex>(total_.size()); g++)
    if (served(s, g) && !s.refused.contains(g))
      largest = std::max(largest, total_[static_cast<size_t>(g)]);
  // The Manager may still assume a higher cost of the context.
  bool fits = wanted + settings_.context_bytes <= largest && (limit == 0 || wanted <= limit);
  if (strict_ && fits) broken(fmt::format("{} bytes were denied that would have fitted", wanted));
  if (s.asks[ticket].alone) s.exclusive = false;
  s.asks.erase(ticket);
  if (ticket == 0) end(s, false);
}

}  // namespace ckpt::manager
