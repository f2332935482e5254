// SPDX-License-Identifier: Apache-2.0
//
// What programs tell of their progress, and what it is good for: who is put together with whom
// (pairs.h), and who is not worth an eviction any more.
#include <algorithm>

#include "manager/policy/policy.h"

namespace ckpt::manager {

namespace in = managed::to_manager;

namespace {

// Of a program's beginning: it prepares its data, and is not what it will be.
constexpr u64 kPreparation = 16;
// A program that has made so much of the calls that its kind usually makes is nearly over.
constexpr double kNearlyOver = 0.8, kMuchOver = 1.2;
// … and one that was evicted is spared for so many times Settings::least_run after its return.
constexpr int kSpared = 10;

}  // namespace

void Policy::take(Program &p, const in::Kind &m) {
  p.kind_hash = m.kind;
  p.kind = kind_of(p);
  kinds_.holds(p.kind, p.peak);
}

// Of very many kinds its own may have had to make room.
KindIndex Policy::kind_of(const Program &p) {
  if (p.kind_hash == 0) return kNoKind;
  Kinds::Found found = kinds_.find(now_, p.kind_hash, p.name);
  if (found.is_new) pairs_.forget(found.index);
  return found.index;
}

// Who is on its GPU with it, as long as all of them do nothing but run.
std::optional<Policy::Company> Policy::company_of(const Program &p) const {
  if (p.phase != Phase::Placed || !p.context || p.gpu == kNoGpu || p.blocked()) return std::nullopt;
  if (gpus_[static_cast<size_t>(p.gpu)].foreign) return std::nullopt;
  Company c;
  for (const auto &q : programs_) {
    if (q->gpu != p.gpu || !q->on_gpu()) continue;
    bool runs = q->phase == Phase::Placed && (q->context || q.get() == &p) && !q->blocked();
    bool is_nothing_yet = q->phase == Phase::Placed && !q->context;
    if (is_nothing_yet) continue;
    if (!runs) return std::nullopt;
    if (q.get() != &p) c.others++, c.beside = q->kind;
  }
  return c;
}

// A stretch begins and ends with a call, so that what a program has enqueued ahead of its device
// does not matter; it counts if the company was the same at both ends and in between.
void Policy::take(Program &p, const in::Progress &m) {
  p.calls = m.calls;
  if (p.kind_hash == 0) return;
  p.kind = kind_of(p);
  std::optional<Company> company = company_of(p);
  Time last = now_ - Time(m.idle_us);
  Stretch &s = p.stretch;
  u64 number = company ? gpu_of(p).company : 0;
  if (number == 0 || number != s.company) {
    s = {.company = number, .since = now_};
    return;
  }
  if (last < s.since || m.calls < kPreparation) return;
  bool one_kind = company->others == 0 || (company->others == 1 && company->beside != kNoKind);
  if (s.begun && m.calls <= s.calls) return;
  if (s.begun) kinds_.copied(p.kind, m.copied - std::min(s.copied, m.copied), last - s.at);
  if (s.begun && one_kind)
    pairs_.measured(now_, p.kind, company->others == 0 ? kNoKind : company->beside,
                    m.calls - s.calls, last - s.at);
  s.begun = true;
  s.calls = m.calls;
  s.copied = m.copied;
  s.at = last;
}

// Two that lose together: the second one waits, as it would with one program per GPU. Nobody waits
// so for ever: who has become the elder is let in after a while, and meanwhile nobody comes in that
// would keep it out.
bool Policy::kept_apart(const Program &p, GpuIndex g) {
  if (settings_.pairs != Pairing::Learn || p.kind == kNoKind) return false;
  if (p.elder_since && now_ - *p.elder_since >= settings_.apart_limit) return false;
  const GpuBook &book = books_.gpus[static_cast<size_t>(g)];
  for (KindIndex k : book.kinds)
    if (pairs_.apart(now_, p.kind, k)) return true;
  if (book.elder != nullptr && book.elder != &p && pairs_.apart(now_, p.kind, book.elder->kind))
    return true;
  return book.programs == 1 && book.kinds.size() == 1 &&
         pairs_.wants_alone(now_, book.kinds[0], p.kind);
}

bool Policy::spared(const Program &p) const {
  double whole = static_cast<double>(kinds_.calls(p.kind)), calls = static_cast<double>(p.calls);
  bool nearly_over = calls > whole * kNearlyOver && calls < whole * kMuchOver;
  bool just_back = p.evictions > 0 && !has_run(p, settings_.least_run * kSpared);
  return nearly_over || just_back;
}

}  // namespace ckpt::manager
