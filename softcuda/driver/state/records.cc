// SPDX-License-Identifier: Apache-2.0
//
// The recordings of events.
#include "softcuda/driver/state/objects.h"
#include "softcuda/driver/state/shared_event.h"

namespace ckpt::softcuda::driver {

bool Record::reached() const { return shared ? shared->reached(ticket) : point.reached(); }

void Record::wait() const { shared ? shared->wait(ticket) : point.wait(); }

std::shared_ptr<Record> Event::last_record() const {
  if (!shared) return record;
  auto r = std::make_shared<Record>();
  r->shared = shared;
  r->ticket = shared->last();
  return r->ticket == 0 ? nullptr : r;
}

std::shared_ptr<Record> Event::new_record() const {
  auto r = std::make_shared<Record>();
  r->shared = shared;
  if (shared) r->ticket = shared->begin();
  return r;
}

// The end of a shared recording is told to other processes even if the context has an error.
void Event::set_record(std::shared_ptr<Record> r, Point end) {
  if (r->shared) end.queue->submit([s = r->shared, t = r->ticket] { s->finish(t); }, {end});
  r->point = std::move(end);
  record = std::move(r);
  capture.reset();
}

}  // namespace ckpt::softcuda::driver
