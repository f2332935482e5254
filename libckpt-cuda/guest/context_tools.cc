// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/guest/context_tools.h"

#include <chrono>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "libckpt-cuda/guest/priorities.h"
#include "slicing/settings.h"

namespace ckpt::cuda::guest {
namespace {

// Any device compiles it: PTX of an old version runs on all later devices.
constexpr const char *kEmptyKernel =
    ".version 6.0\n.target sm_50\n.address_size 64\n.visible .entry ckpt_empty() { ret; }\n";

constexpr int kSideStreams = 3;

}  // namespace

class ContextTools {
 public:
  CUevent take_event() {
    CUevent event = nullptr;
    {
      std::lock_guard lock(mutex_);
      if (!events_.empty()) {
        event = events_.back();
        events_.pop_back();
        return event;
      }
    }
    return driver().cuEventCreate(&event, CU_EVENT_DEFAULT) == CUDA_SUCCESS ? event : nullptr;
  }
  void give_back(CUevent event) {
    std::lock_guard lock(mutex_);
    events_.push_back(event);
  }

  CUstream side_stream(int n) {
    std::lock_guard lock(mutex_);
    return made_stream(side_[n]);
  }

  double time_empty_kernels() {
    std::lock_guard lock(test_mutex_);
    if (!prepare_test()) return 0;
    auto begin = Clock::now();
    CUresult e = CUDA_SUCCESS;
    for (u32 i = 0; i < slicing::settings().cooperation.kernels && e == CUDA_SUCCESS; ++i)
      e = driver().cuLaunchKernel(empty_, 1, 1, 1, 1, 1, 1, 0, test_stream_, nullptr, nullptr);
    if (e == CUDA_SUCCESS) e = driver().cuStreamSynchronize(test_stream_);
    std::chrono::duration<double, std::nano> taken = Clock::now() - begin;
    return e == CUDA_SUCCESS ? taken.count() : 0;
  }

 private:
  static CUstream made_stream(CUstream &stream) {
    if (stream == nullptr &&
        driver().cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) != CUDA_SUCCESS)
      stream = nullptr;
    return stream;
  }

  bool prepare_test() {
    if (empty_ != nullptr) return true;
    if (made_stream(test_stream_) == nullptr) return false;
    CUmodule module = nullptr;
    if (driver().cuModuleLoadData(&module, kEmptyKernel) != CUDA_SUCCESS) return false;
    return driver().cuModuleGetFunction(&empty_, module, "ckpt_empty") == CUDA_SUCCESS;
  }

  std::mutex mutex_, test_mutex_;
  std::vector<CUevent> events_;
  CUstream side_[kSideStreams] = {};
  CUstream test_stream_ = nullptr;
  CUfunction empty_ = nullptr;
};

ContextTools *context_tools() {
  static auto *const kAll = new std::unordered_map<u64, std::unique_ptr<ContextTools>>;
  static std::mutex mutex;
  CUcontext context = nullptr;
  unsigned long long number = 0;
  if (driver().cuCtxGetId == nullptr || driver().cuCtxGetCurrent(&context) != CUDA_SUCCESS ||
      context == nullptr || driver().cuCtxGetId(context, &number) != CUDA_SUCCESS)
    return nullptr;
  std::lock_guard lock(mutex);
  if (kAll->empty() && slicing::settings().guest) report_alternatives();
  std::unique_ptr<ContextTools> &tools = (*kAll)[number];
  if (!tools) tools = std::make_unique<ContextTools>();
  return tools.get();
}

PooledEvent::PooledEvent(ContextTools &tools) : tools_(&tools), event_(tools.take_event()) {}
PooledEvent::PooledEvent(PooledEvent &&o) noexcept
    : tools_(o.tools_), event_(std::exchange(o.event_, nullptr)) {}
PooledEvent::~PooledEvent() {
  if (event_ != nullptr) tools_->give_back(event_);
}

CUstream side_stream(ContextTools &tools, int n) { return tools.side_stream(n); }
double time_empty_kernels(ContextTools &tools) { return tools.time_empty_kernels(); }

}  // namespace ckpt::cuda::guest
