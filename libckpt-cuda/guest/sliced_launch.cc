// SPDX-License-Identifier: Apache-2.0
//
// The problem. A launch of a long kernel becomes many short ones. The program must not notice: not
// by the result, not by an error, not by a deadlock. And a checkpoint must find a moment between
// two slices.
//
// How it works. The calling thread launches slices in the program's stream, in ascending order, and
// keeps at most two of them on the device: the second one is ready when the first one ends, so the
// device does not wait for the host. The thread does not wait for the last slice. A kernel that is
// shorter than a slice is one launch, as without slicing, and as asynchronous. The rest of the
// launch is in this thread, on the host: when a checkpoint closes the gate, the thread waits for
// the slices on the device and leaves the gate; after a restore it continues with the next slice.
//
// What could go wrong. (1) A kernel with blocks that wait for later blocks, which is correct only
// if all are on the device at once: the first slice would never end. (2) A kernel, or earlier work
// in the stream, that waits for something that this thread does after the launch. In both cases a
// slice makes no progress. Then the rest of the grid is launched at once, beside that slice (in up
// to three boxes, each in a separate stream), and the call returns. Now all blocks are on the
// device, as without slicing, only later: nothing was undone, and nothing is lost. The program's
// stream waits for the rest, so its order is kept.
//
// Only a kernel that reads memory in a way that sees the writes of others can wait like that
// (slicing::Kernel::may_wait). It never has a second slice behind the first one, since the first
// could wait for it forever. After it has made no progress once, it runs whole from then on
// (whole_kernels.h). For other kernels, the thread waits as long as they run.
#include "libckpt-cuda/guest/sliced_launch.h"

#include <chrono>
#include <deque>
#include <optional>
#include <thread>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "libckpt-cuda/entry/pass.h"
#include "libckpt-cuda/guest/arguments.h"
#include "libckpt-cuda/guest/stream_order.h"
#include "libckpt-cuda/guest/turns.h"
#include "slicing/boxes.h"
#include "slicing/settings.h"
#include "slicing/whole_kernels.h"

namespace ckpt::cuda::guest {
namespace {

using slicing::blocks_of;
using slicing::Box;

// CKPT_CU(call): returns the error of a call of the driver.
#define CKPT_CU(call) \
  if (CUresult e = (call); e != CUDA_SUCCESS) return e

constexpr u32 kMeasureEvery = 16;  // launches of a kernel that is shorter than a slice
constexpr std::chrono::microseconds kPoll{50}, kSpin{200};

enum class Wait : u8 { Done, Stalled, Failed };

class SlicedLaunch {
 public:
  SlicedLaunch(Kernel &kernel, const LaunchRequest &request, ContextTools &tools, const void *self,
               PartCall call)
      : kernel_(kernel),
        request_(request),
        tools_(tools),
        self_(self),
        call_(call),
        arguments_(kernel, request.params, request.extra, request.grid),
        blocks_(blocks_of(request.grid)) {}

  CUresult run() {
    if (start() != CUDA_SUCCESS) return launch(everything(), request_.stream);
    while (done_ < blocks_) {
      if (gate().closing()) CKPT_CU(let_checkpoint_pass());
      CKPT_CU(begin_slice());
      if (released_) return CUDA_SUCCESS;
      while (flights_.size() > most_in_flight())
        if (Wait w = settle_oldest(); w != Wait::Done)
          return w == Wait::Failed ? error_ : release();
    }
    return finish();
  }

  // One launch: the kernel is shorter than a slice, or must run whole.
  CUresult run_whole() {
    one_slice_ = true;
    if (is_time_to_measure()) return run();
    await_turn();
    CKPT_CU(launch(everything(), request_.stream));
    if (!turn_used(expected_ns(blocks_), Work::Given)) return CUDA_SUCCESS;
    if (start() != CUDA_SUCCESS) return CUDA_SUCCESS;
    if (wait_for(*start_) == Wait::Failed) return error_;
    end_turn(tools_);
    return CUDA_SUCCESS;
  }

  bool shorter_than_slice() { return slice_blocks() >= blocks_; }

 private:
  struct Flight {
    u64 blocks;
    PooledEvent end;
  };

  // Behind the last slice the caller goes on. If it launches kernel after kernel, as a graph does,
  // a checkpoint would wait for all of them if none waited here.
  size_t most_in_flight() const {
    if (done_ == blocks_) return 1;
    return kernel_.facts.may_wait || slicing::settings().guest ? 0 : 1;
  }

  Box everything() const { return {{0, 0, 0}, request_.grid}; }

  // The time of a launch that is not waited for is not known, so some are.
  bool is_time_to_measure() {
    if (slicing::settings().fixed_blocks(blocks_) != 0 || target_ns() == 0) return false;
    std::lock_guard lock(kernel_.mutex);
    return measured_ = kernel_.launches++ % kMeasureEvery == 0;
  }

  // From here on slices are timed.
  CUresult start() {
    start_.emplace(tools_);
    last_.reset();
    return driver().cuEventRecord(start_->get(), request_.stream);
  }

  u64 slice_blocks() {
    if (u64 fixed = slicing::settings().fixed_blocks(blocks_); fixed != 0) return fixed;
    std::lock_guard lock(kernel_.mutex);
    return kernel_.size.next(blocks_);
  }

  double expected_ns(u64 blocks) {
    std::lock_guard lock(kernel_.mutex);
    return kernel_.size.expected_ns(blocks);
  }

  CUresult begin_slice() {
    await_turn();
    u64 most = one_slice_ ? blocks_ : slice_blocks();
    Box box = slicing::next_box(request_.grid, done_, most);
    u64 n = blocks_of(box.extent);
    if (turn_over_ || !turn_has_room(expected_ns(n))) CKPT_CU(next_turn());
    if (released_) return CUDA_SUCCESS;
    CKPT_CU(launch(box, request_.stream));
    flights_.push_back({n, PooledEvent(tools_)});
    done_ += n;
    ++slices_;
    return driver().cuEventRecord(flights_.back().end.get(), request_.stream);
  }

  CUresult launch(const Box &box, CUstream stream) {
    arguments_.set_base(box.base);
    return call_(self_, box.extent, stream, arguments_.params(), arguments_.extra());
  }

  // Waits for everything on the device, then tests the load and pauses.
  CUresult next_turn() {
    CKPT_CU(settle_all());
    if (released_) return CUDA_SUCCESS;
    end_turn(tools_);
    turn_over_ = false;
    return start();
  }

  CUresult let_checkpoint_pass() {
    CKPT_CU(settle_all());
    if (released_) return CUDA_SUCCESS;
    gate().pause();
    return start();
  }

  CUresult settle_all() {
    while (!flights_.empty())
      if (Wait w = settle_oldest(); w != Wait::Done) return w == Wait::Failed ? error_ : release();
    return CUDA_SUCCESS;
  }

  // Waits for the oldest slice on the device, and learns from the time that it took.
  Wait settle_oldest() {
    Wait w = wait_for(flights_.front().end);
    if (w != Wait::Done) return w;
    measure(flights_.front());
    last_.emplace(std::move(flights_.front().end));
    flights_.pop_front();
    return w;
  }

  void measure(const Flight &flight) {
    float ms = 0;
    CUevent from = last_ ? last_->get() : start_->get();
    if (driver().cuEventElapsedTime(&ms, from, flight.end.get()) != CUDA_SUCCESS) return;
    double ns = static_cast<double>(ms) * 1e6;
    {
      std::lock_guard lock(kernel_.mutex);
      kernel_.size.took(flight.blocks, ns, target_ns());
    }
    turn_over_ |= turn_used(ns, Work::Ended);
  }

  Wait wait_for(const PooledEvent &end) {
    Clock::time_point begin = Clock::now();
    for (;;) {
      error_ = driver().cuEventQuery(end.get());
      if (error_ == CUDA_SUCCESS) return Wait::Done;
      if (error_ != CUDA_ERROR_NOT_READY) return Wait::Failed;
      Clock::duration waited = Clock::now() - begin;
      if (waited > patience() && stands_still()) return Wait::Stalled;
      if (waited > kSpin)
        std::this_thread::sleep_for(kPoll);
      else
        std::this_thread::yield();
    }
  }

  static Clock::duration patience() {
    return std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double, std::nano>(slicing::settings().patience_ns));
  }

  // Has not begun, or may be waiting.
  bool stands_still() const {
    return kernel_.facts.may_wait || driver().cuEventQuery(start_->get()) == CUDA_ERROR_NOT_READY;
  }

  // Launches the rest of the grid, beside the slice that makes no progress.
  CUresult release() {
    released_ = true;
    if (kernel_.facts.may_wait && driver().cuEventQuery(start_->get()) == CUDA_SUCCESS) {
      kernel_.waits = true;
      slicing::remember_whole(kernel_.hash, kernel_.facts.name);
      name_whole(kernel_, "its blocks wait for later ones");
    }
    int n = 0;
    for (const Box &box : slicing::rest_of(request_.grid, done_))
      CKPT_CU(launch_beside(box, side_stream(tools_, n++)));
    return CUDA_SUCCESS;
  }

  // The box waits for what was in the program's stream before the kernel, and the stream for it.
  CUresult launch_beside(const Box &box, CUstream side) {
    if (side == nullptr) return launch(box, request_.stream);
    PooledEvent end(tools_);
    CKPT_CU(driver().cuStreamWaitEvent(side, start_->get(), 0));
    CKPT_CU(launch(box, side));
    CKPT_CU(driver().cuEventRecord(end.get(), side));
    return driver().cuStreamWaitEvent(request_.stream, end.get(), 0);
  }

  // The last slices are on the device. They are waited for only if the turn is over, or to measure
  // them, and not for longer than the patience.
  CUresult finish() {
    log::debug("kernel {}: {} blocks in {} slices", kernel_.facts.name, blocks_, slices_);
    if (!measured_)
      for (const Flight &f : flights_) turn_over_ |= turn_used(expected_ns(f.blocks), Work::Given);
    if (!turn_over_ && !measured_) return CUDA_SUCCESS;
    while (!flights_.empty())
      if (Wait w = settle_oldest(); w != Wait::Done)
        return w == Wait::Failed ? error_ : CUDA_SUCCESS;
    if (turn_over_) end_turn(tools_);
    return CUDA_SUCCESS;
  }

  Kernel &kernel_;
  const LaunchRequest &request_;
  ContextTools &tools_;
  const void *self_;
  PartCall call_;
  Arguments arguments_;
  const u64 blocks_;
  u64 done_ = 0;    // blocks that were launched
  u64 slices_ = 0;  // in which they were
  std::deque<Flight> flights_;
  std::optional<PooledEvent> start_, last_;
  bool turn_over_ = false, one_slice_ = false, measured_ = false, released_ = false;
  CUresult error_ = CUDA_SUCCESS;
};

// A grid that the driver refuses must be refused as a whole.
bool is_legal(const slicing::Dim &grid) {
  constexpr u32 kMost[] = {0x7fffffff, 65535, 65535};
  for (int i = 0; i < 3; ++i)
    if (grid[i] == 0 || grid[i] > kMost[i]) return false;
  return true;
}

const char *reason_for_whole(const Kernel &kernel, const LaunchRequest &request) {
  if (!kernel.facts.whole.empty()) return kernel.facts.whole.c_str();
  if (kernel.waits) return "its blocks wait for later ones";
  return request.whole;
}

}  // namespace

bool is_capturing(CUstream stream) {
  CUstreamCaptureStatus status = CU_STREAM_CAPTURE_STATUS_NONE;
  return driver().cuStreamIsCapturing(stream, &status) == CUDA_SUCCESS &&
         status != CU_STREAM_CAPTURE_STATUS_NONE;
}

CUresult launch_sliced(Kernel &kernel, const LaunchRequest &request, const void *self,
                       PartCall call) {
  ContextTools *tools = context_tools();
  const char *whole = reason_for_whole(kernel, request);
  if (whole != nullptr) name_whole(kernel, whole);
  if (tools == nullptr || !is_legal(request.grid) || is_capturing(request.stream)) {
    Arguments arguments(kernel, request.params, request.extra, request.grid);
    return call(self, request.grid, request.stream, arguments.params(), arguments.extra());
  }
  std::optional<StreamOrder> order;
  if (!request.in_order) order.emplace(*tools, request.stream);
  SlicedLaunch launch(kernel, request, *tools, self, call);
  return whole != nullptr || launch.shorter_than_slice() ? launch.run_whole() : launch.run();
}

}  // namespace ckpt::cuda::guest
