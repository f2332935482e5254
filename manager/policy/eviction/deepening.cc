// SPDX-License-Identifier: Apache-2.0
#include "manager/policy/eviction/deepening.h"

#include <algorithm>

#include "common/base/reversed.h"

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
  if (waiting.wants_alone()) return clear_for(waiting, g);
  if (!placement_.admits(waiting, g)) return false;
  u64 need = room_of(waiting, state_.gpu(g), state_.settings);
  // Where no program runs, nothing else will make room. What stays is known roughly, so it is given
  // back until there is room, even if that seems to be too little.
  if (account.programs == 0) {
    if (state_.gpu(g).dying || placement_.has_room(waiting, g)) return false;
    deepen(g, need, &waiting);
    deepen_own(waiting, g);
    return account.deepening > 0;
  }
  u64 coming = account.available_to(waiting) + account.freeing;
  if (coming < need && coming + account.staying_beside(waiting) >= need) {
    deepen(g, need, &waiting);
    return true;
  }
  return coming >= need;
}

// What all others have there, and then its own if that is in its way.
bool Deepening::clear_for(const Program &alone, GpuIndex g) {
  if (alone.cleared_gpu != g) return false;
  deepen(g, kEverything, &alone);
  bool empty = state_.account(g).programs == 0 && !state_.gpu(g).dying;
  if (empty && !placement_.has_room(alone, g)) deepen_own(alone, g);
  return true;
}

// Variables that were never seen may be there and count as missing.
void Deepening::deepen_own(const Program &waiting, GpuIndex g) {
  const Gpu &gpu = state_.gpu(g);
  if (state_.account(g).deepening > 0 || gpu.foreign) return;
  deepen(g, room_of(waiting, gpu, state_.settings));
}

// The program that came last is the last to resume, too.
void Deepening::deepen(GpuIndex g, u64 bytes, const Program *but_not) {
  GpuAccount &account = state_.account(g);
  for (const auto &p : reversed(state_.programs)) {
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
