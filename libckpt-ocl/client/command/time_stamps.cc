// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/command/time_stamps.h"

namespace ckpt::ocl {

// A driver's clock starts anywhere, and a restore brings another driver. Each device therefore has
// an offset that keeps its time stamps from running backwards; differences between two stamps of
// one driver stay exact. Sub-devices share the clock, and so the offset, of their device: events of
// their queues may wait for each other.
void set_time_stamps(Event &e, const Completion &c) {
  if (!e.queue || c.ended == 0) return;
  Device &d = *e.queue->device->root();
  std::lock_guard lock(d.mutex);
  if (c.queued + d.stamp_offset < d.stamp_floor) d.stamp_offset = d.stamp_floor - c.queued;
  auto shown = [&](u64 driver) { return driver + d.stamp_offset; };
  const Event &first = e.first ? *e.first : e;
  e.queued = e.first ? first.queued : shown(c.queued);
  // The driver got a deferred command later than the application enqueued it.
  e.queued -= std::min(e.deferred_ns, e.queued - std::min(e.queued, d.stamp_floor));
  e.submitted = e.first ? first.submitted : shown(c.submitted);
  e.started = e.first ? first.started : shown(c.started);
  e.ended = shown(c.ended);
  d.last_stamp = std::max(d.last_stamp, e.ended);
  e.first = {};
}

}  // namespace ckpt::ocl
