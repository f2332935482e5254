// SPDX-License-Identifier: Apache-2.0
//
// A stream of the server's own for each context, which waits for no other one: for copies that do
// not belong to the order of the program's work.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <span>

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
  // Calls `read` if no context has ended since `ends` was ends(). None ends meanwhile.
  template <class Read>
  CUresult while_unended(u64 ends, Read read) {
    std::lock_guard lock(reading_);
    return ends == ends_ ? read() : CUDA_ERROR_CONTEXT_IS_DESTROYED;
  }
  CUresult read(u64 context, std::span<std::byte> into, u64 address) {
    CUstream stream = nullptr;
    CUresult e = find(context, stream);
    if (e == CUDA_SUCCESS)
      e = driver().cuMemcpyDtoHAsync_v2(into.data(), address, into.size(), stream);
    return e == CUDA_SUCCESS ? driver().cuStreamSynchronize(stream) : e;
  }
  u64 ends() const { return ends_; }
  // Calls `end`, by which a context may end, with its stream, or be reset. Those of others are left
  // to them.
  template <class End>
  CUresult end_context(End end) {
    std::lock_guard reading(reading_);
    CUresult e = end();
    ends_++;
    std::lock_guard lock(mutex_);
    streams_.clear();
    return e;
  }

 private:
  std::mutex reading_;  // held while a thread reads, which no other one waits for
  std::atomic<u64> ends_{0};
  std::mutex mutex_;
  std::map<u64, CUstream> streams_;  // by context
};

}  // namespace ckpt::remote::cuda
