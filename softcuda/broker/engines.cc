// SPDX-License-Identifier: Apache-2.0
#include "softcuda/broker/engines.h"

#include <algorithm>

namespace ckpt::softcuda::broker {

i64 Engines::Engine::take(i32 who, i64 ready, i64 change) {
  bool turn = owner != 0 && owner != who;
  owner = who;
  return std::max(ready, free) + (turn ? change : 0);
}

// A kernel that waits for the bus keeps its engine.
i64 Engines::serve(i32 who, const Job &job) {
  i64 begin = job.since;
  if (job.kernel > 0) begin = kernels_.take(who, begin, job.change);
  i64 end = begin + job.kernel;
  if (job.bus > 0) {
    bus_.free = bus_.take(who, begin, job.bus_change) + job.bus;
    end = std::max(end, bus_.free);
  }
  if (job.kernel > 0) kernels_.free = end;
  return end;
}

}  // namespace ckpt::softcuda::broker
