// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/accounting/credit.h"

#include <algorithm>

namespace ckpt::manager {

namespace out = managed::to_program;

namespace {

// A quarter of the GPU stays free beside it for programs that come.
constexpr u64 kFreeShare = 4;

}  // namespace

void Credits::grant(Program &p) {
  u64 bytes = state_.settings.credit_bytes;
  // With a limit of its own, a program must ask for each allocation.
  if (bytes == 0 || state_.settings.program_bytes != 0 || !p.context()) return;
  Credit &credit = p.residence()->credit;
  GpuAccount &account = state_.account(p.gpu());
  bool plentiful = account.available() >= bytes + state_.gpu(p.gpu()).total / kFreeShare;
  if (credit.bytes > 0 || !plentiful || state_.any_waits()) return;
  credit.bytes = bytes;
  account.reserved += bytes;
  state_.send(p, out::Credit{bytes});
}

void Credits::revoke() {
  auto needy = [](const auto &p) { return p->waiting() || p->blocked(); };
  if (state_.settings.credit_bytes == 0 || std::ranges::none_of(state_.programs, needy)) return;
  for (const auto &p : state_.programs) {
    if (p->credit() == 0) continue;
    Credit &credit = p->residence()->credit;
    if (credit.revoked_at) continue;
    credit.revoked_at = state_.now;
    state_.send(*p, out::RevokeCredit{});
  }
}

void Credits::returned(Program &p, u64 used) {
  p.used = used;
  if (Residence *r = p.residence()) r->credit = {};
}

// A program that does not answer is not waited for.
bool Credits::returning(GpuIndex gpu) const {
  return std::ranges::any_of(state_.programs, [&](const auto &p) {
    const Residence *r = p->residence();
    if (r == nullptr || r->gpu != gpu || r->credit.bytes == 0) return false;
    std::optional<Time> revoked = r->credit.revoked_at;
    return !revoked || state_.now - *revoked < state_.settings.eviction_timeout;
  });
}

}  // namespace ckpt::manager
