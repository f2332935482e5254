// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/lifecycle/transfer.h"

#include "common/base/log.h"
#include "common/base/units.h"

namespace ckpt::cuda {

bool lock_pages(CUcontext context, void *memory, u64 bytes) {
  CurrentContext current(context);
  CUresult e = driver().cuMemHostRegister_v2(memory, bytes, CU_MEMHOSTREGISTER_PORTABLE);
  if (e != CUDA_SUCCESS)
    log::debug("the driver does not pin {} of host memory, so copies are slower: {}",
               mebibytes_needed(bytes), error_name(e));
  return e == CUDA_SUCCESS;
}

void unlock_pages(CUcontext context, void *memory) {
  CurrentContext current(context);
  driver().cuMemHostUnregister(memory);
}

PinnedMemory::PinnedMemory(CUcontext context, void *memory, u64 bytes)
    : context_(context), memory_(lock_pages(context, memory, bytes) ? memory : nullptr) {}

PinnedMemory::~PinnedMemory() {
  if (memory_ != nullptr) unlock_pages(context_, memory_);
}

Transfer::~Transfer() {
  // After an error copies may still be in flight, and the owner frees their host memory next.
  for (auto &[context, streams] : streams_) {
    CurrentContext current(context);
    for (CUstream s : streams) driver().cuStreamSynchronize(s);
    for (CUstream s : streams) driver().cuStreamDestroy_v2(s);
  }
  for (Copy &c : in_flight_) driver().cuEventDestroy_v2(c.event);
}

Result<CUstream> Transfer::next_stream(CUcontext context) {
  std::vector<CUstream> &streams = streams_[context];
  if (streams.size() == kStreamsPerContext) return streams[turn_++ % streams.size()];
  CUstream stream = nullptr;
  CKPT_CHECK(as_result(driver().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING),
                       "create a stream to copy device memory"));
  streams.push_back(stream);
  return stream;
}

// `start_copy` enqueues the copy in the stream that it is given.
template <class Start>
Result<> Transfer::start(CUcontext context, Done done, Start start_copy) {
  CurrentContext current(context);
  CKPT_CHECK(as_result(current.status(), "use a context to copy device memory"));
  CKPT_TRY(CUstream stream, next_stream(context));
  CKPT_CHECK(as_result(start_copy(stream), "copy device memory"));
  Copy copy{context, nullptr, std::move(done)};
  CKPT_CHECK(
      as_result(driver().cuEventCreate(&copy.event, CU_EVENT_DISABLE_TIMING), "create an event"));
  in_flight_.push_back(std::move(copy));
  CKPT_CHECK(as_result(driver().cuEventRecord(in_flight_.back().event, stream), "record an event"));
  return in_flight_.size() >= kMostInFlight ? complete_oldest() : Result<>{};
}

Result<> Transfer::to_host(CUcontext context, void *host, u64 device, u64 bytes, Done done) {
  return start(context, std::move(done), [=](CUstream stream) {
    return driver().cuMemcpyDtoHAsync_v2(host, device, bytes, stream);
  });
}

Result<> Transfer::to_device(CUcontext context, u64 device, const void *host, u64 bytes,
                             Done done) {
  return start(context, std::move(done), [=](CUstream stream) {
    return driver().cuMemcpyHtoDAsync_v2(device, host, bytes, stream);
  });
}

Result<> Transfer::zero(CUcontext context, u64 device, u64 bytes) {
  return start(
      context, [] { return Result<>{}; },
      [=](CUstream stream) { return driver().cuMemsetD8Async(device, 0, bytes, stream); });
}

Result<> Transfer::complete_oldest() {
  Copy copy = std::move(in_flight_.front());
  in_flight_.pop_front();
  CurrentContext current(copy.context);
  CUresult e = driver().cuEventSynchronize(copy.event);
  driver().cuEventDestroy_v2(copy.event);
  CKPT_CHECK(as_result(e, "copy device memory"));
  return copy.done();
}

Result<> Transfer::drain() {
  while (!in_flight_.empty()) CKPT_CHECK(complete_oldest());
  return {};
}

}  // namespace ckpt::cuda
