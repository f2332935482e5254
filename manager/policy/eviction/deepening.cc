// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/eviction/deepening.h"

#include <algorithm>
#include <ranges>

namespace ckpt::manager {

namespace out = managed::to_program;

void Deepening::run(const std::vector<Program *> &waiting) {
  for (const auto &p : state_.programs)
    if (p->blocked()) make_room_for(*p);
  for (const Program *p : waiting)
    if (p->waiting() && state_.now >= p->retry_at) find_room_for(*p);
}

void Deepening::make_room_for(const Program &blocked) {
  const Request &r = *std::ranges::find(blocked.requests, false, &Request::granted);
  deepen(blocked.gpu(), r.alone ? kEverything : r.bytes);
}

void Deepening::find_room_for(const Program &waiting) {
  for (GpuIndex g = 0; g < state_.gpu_count(); g++)
    if (state_.account(g).stayers > 0 && make_room_on(waiting, g)) return;
}

// True: there will be room there, so no other GPU need be looked at.
bool Deepening::make_room_on(const Program &waiting, GpuIndex g) {
  const GpuAccount &account = state_.account(g);
  if (waiting.wants_alone()) {
    bool cleared = waiting.cleared_gpu == g;
    if (cleared) deepen(g, kEverything, &waiting);
    return cleared;
  }
  if (!placement_.admits(waiting, g)) return false;
  u64 need = room_of(waiting, state_.gpu(g), state_.settings);
  // Where no program runs, nothing else will make room. What stays is known roughly, so it is given
  // back until there is room, even if that seems to be too little.
  if (account.programs == 0) {
    if (state_.gpu(g).dying || placement_.has_room(waiting, g)) return false;
    deepen(g, need, &waiting);
    // Its own, because variables that were never seen may be there and count as missing.
    if (account.deepening == 0 && !state_.gpu(g).foreign) deepen(g, need);
    return account.deepening > 0;
  }
  u64 coming = account.available_to(waiting) + account.freeing;
  if (coming < need && coming + account.staying_beside(waiting) >= need) {
    deepen(g, need, &waiting);
    return true;
  }
  return coming >= need;
}

// The program that came last is the last to resume, too.
void Deepening::deepen(GpuIndex g, u64 bytes, const Program *but_not) {
  GpuAccount &account = state_.account(g);
  for (const auto &p : state_.programs | std::views::reverse) {
    if (account.available() + account.freeing >= bytes) return;
    auto *e = std::get_if<Evicted>(&p->state);
    if (e == nullptr || p.get() == but_not || e->stay.gpu != g) continue;
    if (e->stay.deepening || e->stay.fixed || state_.now < p->retry_at) continue;
    e->stay.deepening = true;
    e->stay.since = state_.now;
    account.staying -= e->stay.bytes;
    account.freeing += e->stay.bytes;
    account.deepening++;
    state_.send(*p, out::Deepen{});
  }
}

}  // namespace ckpt::manager
