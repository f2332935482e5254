// SPDX-License-Identifier: Apache-2.0
//
// The objects that slicing needs in each context of the driver: events, additional streams, and the
// empty kernel of the load test. Contexts are identified by their numbers, which the driver does
// not reuse, so the objects of a destroyed context are recognised and dropped.
#pragma once

#include "libckpt-cuda/entry/driver.h"

namespace ckpt::cuda::guest {

class ContextTools;
// Of the calling thread's current context; null if there is none. Lives as long as the process.
ContextTools *context_tools();

// An event with a time, from the context's pool, to which it returns.
class PooledEvent {
 public:
  explicit PooledEvent(ContextTools &tools);
  PooledEvent(PooledEvent &&o) noexcept;
  PooledEvent &operator=(PooledEvent &&) = delete;
  ~PooledEvent();
  CUevent get() const { return event_; }

 private:
  ContextTools *tools_;
  CUevent event_ = nullptr;
};

// A stream that waits for no other; the n-th of three. Null: it cannot be made.
CUstream side_stream(ContextTools &tools, int n);

// The time that the empty kernels of a load test take now, in nanoseconds; 0: they could not be
// run.
double time_empty_kernels(ContextTools &tools);

}  // namespace ckpt::cuda::guest
