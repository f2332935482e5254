// SPDX-License-Identifier: Apache-2.0
//
// Where copies and fills go in a stream that records a graph instead of working (graphs/capture.h).
#pragma once

#include <atomic>

#include "remote/cuda/client/objects/client.h"

namespace ckpt::remote::cuda {

// `waits`: the call would wait for the work, which is not permitted in such a stream.
class Recorder {
 public:
  virtual bool records(u64 stream) = 0;
  virtual CUresult copy(u64 stream, bool waits, u64 to, u64 from, u64 bytes) = 0;
  virtual CUresult copy_box(u64 stream, bool waits, const CUDA_MEMCPY3D &p) = 0;
  virtual CUresult fill(u64 stream, bool waits, const CUDA_MEMSET_NODE_PARAMS_v1 &p) = 0;

 protected:
  ~Recorder() = default;
};

// Null unless some stream records. What it points to lives for ever.
inline std::atomic<Recorder *> recorder{nullptr};

// Null unless this stream records.
inline Recorder *recorder_of(u64 stream) {
  Recorder *r = recorder.load(std::memory_order_acquire);
  return r && r->records(stream) ? r : nullptr;
}

}  // namespace ckpt::remote::cuda
