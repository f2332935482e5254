// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/transfer.h"

#include "common/base/log.h"

namespace ckpt::cuda {

Pinned::Pinned(CUcontext context, void *memory, u64 bytes) : context_(context) {
  Current current(context_);
  CUresult e = driver().cuMemHostRegister_v2(memory, bytes, CU_MEMHOSTREGISTER_PORTABLE);
  if (e == CUDA_SUCCESS)
    memory_ = memory;
  else
    log::debug("staging memory is not pinned: {}", error_name(e));
}

Pinned::~Pinned() {
  if (memory_ == nullptr) return;
  Current current(context_);
  driver().cuMemHostUnregister(memory_);
}

Transfer::~Transfer() {
  // What is still under way has failed; its memory must not be written behind our back.
  for (auto &[context, lanes] : lanes_) {
    Current current(context);
    for (Lane &lane : lanes) driver().cuStreamSynchronize(lane.stream);
    for (Lane &lane : lanes) driver().cuStreamDestroy_v2(lane.stream);
  }
  for (Copy &c : under_way_) driver().cuEventDestroy_v2(c.event);
}

Result<Transfer::Lane *> Transfer::next_lane(CUcontext context) {
  std::vector<Lane> &lanes = lanes_[context];
  if (lanes.size() < kStreams) {
    Lane lane{context, nullptr};
    CKPT_CHECK(did(driver().cuStreamCreate(&lane.stream, CU_STREAM_NON_BLOCKING),
                   "make a stream for device memory"));
    lanes.push_back(lane);
    return &lanes.back();
  }
  return &lanes[turn_++ % lanes.size()];
}

Result<> Transfer::to_host(CUcontext context, void *host, u64 device, u64 bytes, Done done) {
  Current current(context);
  CKPT_CHECK(did(current.status(), "use a context"));
  CKPT_TRY(Lane * lane, next_lane(context));
  CUresult e = driver().cuMemcpyDtoHAsync_v2(host, device, bytes, lane->stream);
  return sent(*lane, e, std::move(done));
}

Result<> Transfer::to_device(CUcontext context, u64 device, const void *host, u64 bytes,
                             Done done) {
  Current current(context);
  CKPT_CHECK(did(current.status(), "use a context"));
  CKPT_TRY(Lane * lane, next_lane(context));
  CUresult e = driver().cuMemcpyHtoDAsync_v2(device, host, bytes, lane->stream);
  return sent(*lane, e, std::move(done));
}

Result<> Transfer::sent(Lane &lane, CUresult e, Done done) {
  CKPT_CHECK(did(e, "copy device memory"));
  Copy copy{lane.context, nullptr, std::move(done)};
  CKPT_CHECK(did(driver().cuEventCreate(&copy.event, CU_EVENT_DISABLE_TIMING), "make an event"));
  under_way_.push_back(std::move(copy));
  CKPT_CHECK(did(driver().cuEventRecord(under_way_.back().event, lane.stream), "record an event"));
  return under_way_.size() >= kUnderWay ? end_oldest() : Result<>{};
}

Result<> Transfer::end_oldest() {
  Copy copy = std::move(under_way_.front());
  under_way_.pop_front();
  Current current(copy.context);
  CUresult e = driver().cuEventSynchronize(copy.event);
  driver().cuEventDestroy_v2(copy.event);
  CKPT_CHECK(did(e, "copy device memory"));
  return copy.done();
}

Result<> Transfer::drain() {
  while (!under_way_.empty()) CKPT_CHECK(end_oldest());
  return {};
}

}  // namespace ckpt::cuda
