// SPDX-License-Identifier: Apache-2.0
#include "driver-checkpoint/owner/drain.h"

#include <poll.h>
#include <unistd.h>

#include <utility>

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
// How soon the end of a tool is noticed while a copy does not end.
constexpr std::chrono::milliseconds kLook{50};

}  // namespace

// A copy may not cross the end of a piece of the file, because each is page-locked by itself.
Result<DueCopy> Drain::due(const OwnerCopy &c) const {
  const HeldMemory::Piece *piece = held_.find(c.key);
  bool in_memory = piece != nullptr && c.bytes > 0 && c.offset <= piece->bytes &&
                   c.bytes <= piece->bytes - c.offset;
  bool in_file = c.at < file_->bytes() && c.bytes <= file_->bytes() - c.at;
  if (in_memory && in_file &&
      DirectMemory::piece_of(c.at) == DirectMemory::piece_of(c.at + c.bytes - 1))
    return DueCopy{piece->context, piece->base + c.offset, c.bytes, c.at};
  return fail("malformed copy of {} bytes of device memory {:#x}", c.bytes, c.key);
}

Result<u64> Drain::begin(std::unique_ptr<DirectMemory> file, UniqueFd tool,
                         const std::vector<OwnerCopy> &copies, bool device_copies) {
  if (end_.valid()) return fail("device memory is being copied already");
  file_ = std::move(file);
  tool_ = std::move(tool);
  copies_.clear();
  for (const OwnerCopy &c : copies) {
    CKPT_TRY(DueCopy copy, due(c));
    copies_.push_back(copy);
  }
  first_on_device_ = device_copies ? make_room_on_device(driver_, copies_) : copies_.size();
  CKPT_TRY(std::thread thread, start_thread([this] { run(); }));
  thread.detach();  // the process ends in its main thread, whatever this one does
  left_ = leaving_.get_future();
  end_ = ended_.get_future();
  return bytes_to_host_first();
}

u64 Drain::bytes_to_host_first() const {
  u64 sum = 0;
  for (size_t i = 0; i < first_on_device_; i++) sum += copies_[i].bytes;
  return sum;
}

void Drain::wait_for_held() {
  if (left_.valid()) left_.wait();
}

void Drain::wait() {
  while (end_.valid() && end_.wait_for(kLook) != std::future_status::ready && is_wanted()) continue;
}

void Drain::run() {
  Result<> done = guarded([this] { return copy_all(); });
  if (!done) {
    Writer why;
    why.str(done.error().what).str(done.error().hint);
    (void)send_message(tool_.get(), static_cast<u16>(Type::Failed), why.bytes());
  }
  leave_held();
  ended_.set_value();
  test_point("owner-copied");
  wait_for_tool();
}

Result<> Drain::copy_all() {
  CKPT_CHECK(copy_on_device());
  agent::PiecesAhead ahead(*file_, this);
  Result<> done;
  for (size_t i = 0; i < copies_.size() && done; i++) {
    if (i == first_on_device_) done = complete_all();
    if (i == first_on_device_) leave_held();
    if (done) done = start(copies_[i], ahead);
  }
  Result<> completed = complete_all();
  return done ? completed : done;
}

// The device copies in the order of each stream, and all streams have ended at the end.
Result<> Drain::copy_on_device() {
  for (DueCopy &c : std::span(copies_).subspan(first_on_device_)) {
    CKPT_CHECK(driver_.checked(driver_.cuCtxSetCurrent(c.context), "use a context"));
    CKPT_TRY(CUstream stream, stream_in(c.context));
    CKPT_CHECK(driver_.checked(driver_.cuMemcpyDtoDAsync_v2(c.device_copy, c.from, c.bytes, stream),
                               "copy device memory on the device"));
    c.from = c.device_copy;
  }
  return synchronize();
}

Result<> Drain::synchronize() const {
  for (auto &[context, streams] : streams_) {
    CKPT_CHECK(driver_.checked(driver_.cuCtxSetCurrent(context), "use a context"));
    for (CUstream stream : streams)
      CKPT_CHECK(driver_.checked(driver_.cuStreamSynchronize(stream), "copy device memory"));
  }
  return {};
}

Result<> Drain::start(const DueCopy &c, agent::PiecesAhead &ahead) {
  CKPT_CHECK(ahead.wait_for(DirectMemory::piece_of(c.at)));
  CKPT_CHECK(driver_.checked(driver_.cuCtxSetCurrent(c.context), "use a context"));
  CKPT_TRY(CUstream stream, stream_in(c.context));
  CKPT_CHECK(driver_.checked(driver_.cuMemcpyDtoHAsync_v2(file_->at(c.at), c.from, c.bytes, stream),
                             "copy device memory"));
  Copy copy{c, nullptr};
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
  (void)driver_.cuCtxSetCurrent(copy.what.context);
  CUresult e = driver_.cuEventSynchronize(copy.event);
  driver_.cuEventDestroy_v2(copy.event);
  CKPT_CHECK(driver_.checked(e, "copy device memory"));
  if (copy.what.device_copy != 0) driver_.cuMemFree_v2(copy.what.device_copy);
  if (!tell(++completed_) && held_left_) return fail("the tool has ended");
  return {};
}

// An error is the first.
Result<> Drain::complete_all() {
  Result<> done;
  while (!in_flight_.empty()) {
    Result<> completed = complete_oldest();
    if (done) done = std::move(completed);
  }
  return done;
}

void Drain::leave_held() {
  if (!std::exchange(held_left_, true)) leaving_.set_value();
}

// False: the tool has ended. While the program has no memory it may still need the file.
bool Drain::tell(u64 done) const {
  u16 type = static_cast<u16>(Type::Drained);
  return send_message(tool_.get(), type, Writer().put(done).bytes()).has_value();
}

bool Drain::is_wanted() const {
  pollfd tool{tool_.get(), POLLRDHUP, 0};
  return ::poll(&tool, 1, 0) == 0;
}

// Once the image is complete and the program has ended, no process will come for the memory.
void Drain::wait_for_tool() const {
  Result<std::optional<Message>> m = receive_message(tool_.get());
  if (m && *m && (*m)->type == static_cast<u16>(Type::OwnerDrop)) ::_exit(0);
}

void Drain::lock_pages(std::span<std::byte> memory) {
  if (!copies_.empty()) (void)driver_.cuCtxSetCurrent(copies_.front().context);
  CUresult e =
      driver_.cuMemHostRegister_v2(memory.data(), memory.size(), CU_MEMHOSTREGISTER_PORTABLE);
  if (e != CUDA_SUCCESS)
    log::debug("host memory is not page-locked: error {}", static_cast<int>(e));
}

void Drain::unlock_pages(std::span<std::byte> memory) {
  if (!copies_.empty()) (void)driver_.cuCtxSetCurrent(copies_.front().context);
  (void)driver_.cuMemHostUnregister(memory.data());
}

}  // namespace ckpt::cuda
