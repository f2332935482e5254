// SPDX-License-Identifier: Apache-2.0
//
// In a stream each kernel begins when the one before has ended (CUDA programming guide, "Streams").
// So while one thread launches the slices of a kernel, another one must not launch into the same
// stream. It waits outside of the gate: a checkpoint may take place meanwhile.
#pragma once

#include <thread>
#include <tuple>

#include "libckpt-cuda/guest/context_tools.h"

namespace ckpt::cuda::guest {

// Every thread has a stream CU_STREAM_PER_THREAD of its own; of others the thread is left empty.
using StreamKey = std::tuple<const ContextTools *, CUstream, std::thread::id>;

class StreamOrder {
 public:
  // The caller has passed the gate.
  StreamOrder(const ContextTools &context, CUstream stream);
  StreamOrder(const StreamOrder &) = delete;
  ~StreamOrder();

 private:
  StreamKey key_;
};

}  // namespace ckpt::cuda::guest
