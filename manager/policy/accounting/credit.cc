// SPDX-License-Identifier: Apache-2.0
//
// Memory that a program may take without a question, so that one that allocates and frees all the
// time need not wait for an answer each time. It is reserved like what was asked for
// (accounting.cc), so a promise to somebody else is never made of it; and it is given only while
// memory is plentiful and nobody waits, and wanted back as soon as somebody does, before anybody is
// evicted.
//
// Of what it has taken a program may take again only what it has freed: so there is never more than
// `credit` to come beside what was measured. How much of it is taken is told when it is given back,
// or the GPU is left.
#include <algorithm>

#include "manager/policy/policy.h"

namespace ckpt::manager {

namespace in = managed::to_manager;
namespace out = managed::to_program;

namespace {

// A quarter of a GPU stays free of it for those who come.
constexpr u64 kShare = 4;

}  // namespace

void Policy::grant_credit(Program &p) {
  const Gpu &gpu = gpu_of(p);
  GpuAccount &account = account_of(p);
  bool plentiful = account.available() >= settings_.credit_bytes + gpu.total / kShare;
  // A limit of its own is kept by asking.
  bool none = settings_.credit_bytes == 0 || settings_.program_bytes != 0 || !p.context;
  if (none || p.credit_revoked || p.credit > 0 || !plentiful || anybody_waits()) return;
  p.credit = settings_.credit_bytes;
  account.reserved += p.credit;
  send(p, out::Credit{p.credit});
}

void Policy::revoke_credits() {
  auto needy = [](const auto &p) { return p->waiting() || p->blocked(); };
  if (settings_.credit_bytes == 0 || std::ranges::none_of(programs_, needy)) return;
  for (const auto &p : programs_) {
    if (p->credit == 0 || p->credit_revoked) continue;
    p->credit_revoked = true;
    p->credit_revoked_at = now_;
    send(*p, out::RevokeCredit{});
  }
}

// Who does not answer is not waited for.
bool Policy::credit_returning(GpuIndex gpu) const {
  return std::ranges::any_of(programs_, [&](const auto &p) {
    bool answers = !p->credit_revoked || now_ - p->credit_revoked_at < settings_.eviction_timeout;
    return p->gpu == gpu && p->credit > 0 && answers;
  });
}

void Policy::on(Program &p, const in::CreditReturned &m) {
  p.used = sane(m.used);
  p.credit = 0;
  p.credit_revoked = false;
  see_variables_again(p);
}

}  // namespace ckpt::manager
