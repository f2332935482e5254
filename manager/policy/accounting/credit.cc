// SPDX-License-Identifier: Apache-2.0
//
// Memory that a program may take without a question, so that one that allocates and frees all the
// time need not wait for an answer each time. It is reserved like what was asked for (books.cc), so
// a promise to somebody else is never made of it; and it is given only while memory is plentiful
// and nobody waits, and wanted back as soon as somebody does, before anybody is evicted.
//
// Of what it has taken a program may take again only what it has freed: so there is never more than
// `ahead` to come beside what was measured. How much of it is taken is told when it is given back,
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

void Policy::give_ahead(Program &p) {
  const Gpu &gpu = gpu_of(p);
  GpuBook &book = book_of(p);
  bool plentiful = book.available() >= settings_.ahead_bytes + gpu.total / kShare;
  // A limit of its own is kept by asking.
  bool none = settings_.ahead_bytes == 0 || settings_.program_bytes != 0 || !p.context;
  if (none || p.recalled || p.ahead > 0 || !plentiful || anybody_waits()) return;
  p.ahead = settings_.ahead_bytes;
  book.reserved += p.ahead;
  send(p, out::Ahead{p.ahead});
}

void Policy::recall_all() {
  auto needy = [](const auto &p) { return p->waiting() || p->blocked(); };
  if (settings_.ahead_bytes == 0 || std::ranges::none_of(programs_, needy)) return;
  for (const auto &p : programs_) {
    if (p->ahead == 0 || p->recalled) continue;
    p->recalled = true;
    p->recalled_at = now_;
    send(*p, out::Recall{});
  }
}

// Who does not answer is not waited for.
bool Policy::comes_back(GpuIndex gpu) const {
  return std::ranges::any_of(programs_, [&](const auto &p) {
    bool answers = !p->recalled || now_ - p->recalled_at < settings_.answer_timeout;
    return p->gpu == gpu && p->ahead > 0 && answers;
  });
}

void Policy::take(Program &p, const in::AheadBack &m) {
  p.used = sane(m.used);
  p.ahead = 0;
  p.recalled = false;
  see_variables_again(p);
}

}  // namespace ckpt::manager
