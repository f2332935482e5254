// SPDX-License-Identifier: Apache-2.0
#include "softcuda/broker/engines.h"

namespace ckpt::softcuda::broker {

i64 Engines::Engine::take(i32 process, i64 ready, i64 switch_cost) {
  bool switches = owner != 0 && owner != process;
  owner = process;
  return std::max(ready, free) + (switches ? switch_cost : 0);
}

// A kernel that waits for the bus keeps the kernel engine.
i64 Engines::serve(i32 process, const Job &job) {
  i64 begin = job.since;
  kernels_.served += job.kernel;
  bus_.served += job.bus;
  if (job.kernel > 0) begin = kernels_.take(process, begin, job.switch_cost);
  i64 end = begin + job.kernel;
  if (job.bus > 0) {
    bus_.free = bus_.take(process, begin, job.bus_switch_cost) + job.bus;
    end = std::max(end, bus_.free);
  }
  if (job.kernel > 0) kernels_.free = end;
  return end;
}

}  // namespace ckpt::softcuda::broker
