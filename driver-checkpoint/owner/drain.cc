// SPDX-License-Identifier: Apache-2.0
#include "driver-checkpoint/owner/drain.h"

#include <unistd.h>

#include "agent/protocol.h"
#include "common/base/log.h"
#include "common/base/shortage.h"
#include "common/base/test_points.h"

namespace ckpt::cuda {
namespace {

using agent::DirectMemory;
using protocol::Type;

// As in a program's own copies (libckpt-cuda/lifecycle/transfer.h).
constexpr size_t kStreamsPerContext = 4;
constexpr size_t kMostInFlight = 8;

}  // namespace

// A copy may not cross the end of a piece of the file, because each is page-locked by itself.
Result<> Drain::check(const OwnerCopy &c) const {
  const HeldMemory::Piece *piece = held_.find(c.key);
  bool in_memory = piece != nullptr && c.bytes > 0 && c.offset <= piece->bytes &&
                   c.bytes <= piece->bytes - c.offset;
  bool in_file = c.at < file_->bytes() && c.bytes <= file_->bytes() - c.at;
  if (in_memory && in_file &&
      DirectMemory::piece_of(c.at) == DirectMemory::piece_of(c.at + c.bytes - 1))
    return {};
  return fail("malformed copy of {} bytes of device memory {:#x}", c.bytes, c.key);
}

Result<> Drain::begin(std::unique_ptr<DirectMemory> file, UniqueFd tool,
                      std::vector<OwnerCopy> copies) {
  if (end_.valid()) return fail("device memory is being copied already");
  file_ = std::move(file);
  tool_ = std::move(tool);
  copies_ = std::move(copies);
  for (const OwnerCopy &c : copies_) CKPT_CHECK(check(c));
  CKPT_TRY(std::thread thread, start_thread([this] { run(); }));
  thread.detach();  // the process ends in its main thread, whatever this one does
  end_ = ended_.get_future();
  return {};
}

void Drain::wait() {
  if (end_.valid()) end_.wait();
}

void Drain::run() {
  Result<> done = guarded([this] { return copy_all(); });
  if (!done) {
    Writer why;
    why.str(done.error().what).str(done.error().hint);
    (void)send_message(tool_.get(), static_cast<u16>(Type::Failed), why.bytes());
  }
  ended_.set_value();
  test_point("owner-copied");
  wait_for_tool();
}

Result<> Drain::copy_all() {
  agent::PiecesAhead ahead(*file_, this);
  Result<> done;
  for (const OwnerCopy &c : copies_)
    if (done) done = start(c, ahead);
  while (!in_flight_.empty()) {
    Result<> completed = complete_oldest();
    if (done) done = std::move(completed);
  }
  return done;
}

Result<> Drain::start(const OwnerCopy &c, agent::PiecesAhead &ahead) {
  CKPT_CHECK(ahead.wait_for(DirectMemory::piece_of(c.at)));
  const HeldMemory::Piece &piece = *held_.find(c.key);
  CKPT_CHECK(driver_.checked(driver_.cuCtxSetCurrent(piece.context), "use a context"));
  CKPT_TRY(CUstream stream, stream_in(piece.context));
  CKPT_CHECK(driver_.checked(
      driver_.cuMemcpyDtoHAsync_v2(file_->at(c.at), piece.base + c.offset, c.bytes, stream),
      "copy device memory"));
  Copy copy{piece.context, nullptr};
  CKPT_CHECK(driver_.checked(driver_.cuEventCreate(&copy.event, CU_EVENT_DISABLE_TIMING),
                             "create an event"));
  in_flight_.push_back(copy);
  CKPT_CHECK(driver_.checked(driver_.cuEventRecord(copy.event, stream), "record an event"));
  return in_flight_.size() >= kMostInFlight ? complete_oldest() : Result<>{};
}

Result<CUstream> Drain::stream_in(CUcontext context) {
  std::vector<CUstream> &streams = streams_[context];
  if (streams.size() == kStreamsPerContext) return streams[started_++ % kStreamsPerContext];
  CUstream stream = nullptr;
  CKPT_CHECK(driver_.checked(driver_.cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING),
                             "create a stream to copy device memory"));
  streams.push_back(stream);
  return stream;
}

Result<> Drain::complete_oldest() {
  Copy copy = in_flight_.front();
  in_flight_.pop_front();
  (void)driver_.cuCtxSetCurrent(copy.context);
  CUresult e = driver_.cuEventSynchronize(copy.event);
  driver_.cuEventDestroy_v2(copy.event);
  CKPT_CHECK(driver_.checked(e, "copy device memory"));
  tell(++completed_);
  return {};
}

// A tool that has ended needs no news.
void Drain::tell(u64 done) const {
  (void)send_message(tool_.get(), static_cast<u16>(Type::Drained), Writer().put(done).bytes());
}

// Once the image is complete and the program has ended, no process will come for the memory.
void Drain::wait_for_tool() const {
  Result<std::optional<Message>> m = receive_message(tool_.get());
  if (m && *m && (*m)->type == static_cast<u16>(Type::OwnerDrop)) ::_exit(0);
}

void Drain::lock_pages(std::span<std::byte> memory) {
  if (!copies_.empty()) (void)driver_.cuCtxSetCurrent(held_.find(copies_.front().key)->context);
  CUresult e =
      driver_.cuMemHostRegister_v2(memory.data(), memory.size(), CU_MEMHOSTREGISTER_PORTABLE);
  if (e != CUDA_SUCCESS)
    log::debug("host memory is not page-locked: error {}", static_cast<int>(e));
}

void Drain::unlock_pages(std::span<std::byte> memory) {
  if (!copies_.empty()) (void)driver_.cuCtxSetCurrent(held_.find(copies_.front().key)->context);
  (void)driver_.cuMemHostUnregister(memory.data());
}

}  // namespace ckpt::cuda
