// SPDX-License-Identifier: Apache-2.0
//
// A stream of the server's own for each context, which waits for no other one: for copies that do
// not belong to the order of the program's work.
#pragma once

#include <map>
#include <mutex>

#include "remote/cuda/server/driver.h"

namespace ckpt::remote::cuda {

class OwnStreams {
 public:
  // `context`: the current one's number.
  CUresult find(u64 context, CUstream &out) {
    std::lock_guard lock(mutex_);
    CUstream &known = streams_[context];
    CUresult e = known ? CUDA_SUCCESS : driver().cuStreamCreate(&known, CU_STREAM_NON_BLOCKING);
    out = known;
    return e;
  }
  // At once; kernels that are launched from then on see the bytes.
  CUresult write(u64 context, u64 address, ByteView bytes) {
    CUstream stream = nullptr;
    CUresult e = find(context, stream);
    if (e == CUDA_SUCCESS)
      e = driver().cuMemcpyHtoDAsync_v2(address, bytes.data(), bytes.size(), stream);
    return e == CUDA_SUCCESS ? driver().cuStreamSynchronize(stream) : e;
  }
  // A context has ended, with its stream, or was reset; those of others are left to them.
  void forget() {
    std::lock_guard lock(mutex_);
    streams_.clear();
  }

 private:
  std::mutex mutex_;
  std::map<u64, CUstream> streams_;  // by context
};

}  // namespace ckpt::remote::cuda
