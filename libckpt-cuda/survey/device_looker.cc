// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>

#include "libckpt-cuda/look_code.h"
#include "libckpt-cuda/survey/looker.h"

namespace ckpt::cuda {
namespace {

constexpr u32 kThreads = 256;           // of look.cu
constexpr u32 kBlocksPerProcessor = 8;  // as many as a multiprocessor runs at a time

class LookCode {
 public:
  LookCode() = default;
  ~LookCode() {
    if (module_ != nullptr) driver().cuModuleUnload(module_);
  }
  LookCode(const LookCode &) = delete;
  Result<CUfunction> load() {
    CUfunction function = nullptr;
    CKPT_CHECK(as_result(driver().cuModuleLoadData(&module_, kLookCode),
                         "load the kernel that looks at device memory"));
    CKPT_CHECK(as_result(driver().cuModuleGetFunction(&function, module_, "ckpt_look"),
                         "find the kernel that looks at device memory"));
    return function;
  }

 private:
  CUmodule module_ = nullptr;
};

// Host memory that the kernel reads and writes over the bus: 48 bytes for each chunk.
class Lists {
 public:
  Lists() = default;
  ~Lists() {
    if (memory_ != nullptr) driver().cuMemFreeHost(memory_);
  }
  Lists(const Lists &) = delete;
  Result<> make(size_t count) {
    count_ = count;
    return as_result(driver().cuMemHostAlloc(&memory_, count * (sizeof(Chunk) + sizeof(Seen)), 0),
                     "allocate host memory to look at device memory");
  }
  Chunk *chunks() const { return static_cast<Chunk *>(memory_); }
  Seen *seen() const { return reinterpret_cast<Seen *>(chunks() + count_); }

 private:
  void *memory_ = nullptr;
  size_t count_ = 0;
};

class OwnStream {
 public:
  OwnStream() = default;
  ~OwnStream() {
    if (stream_ != nullptr) driver().cuStreamDestroy_v2(stream_);
  }
  OwnStream(const OwnStream &) = delete;
  Result<CUstream> make() {
    CKPT_CHECK(as_result(driver().cuStreamCreate(&stream_, CU_STREAM_NON_BLOCKING),
                         "create a stream to look at device memory"));
    return stream_;
  }

 private:
  CUstream stream_ = nullptr;
};

u32 blocks_to_launch(u32 chunks) {
  CUdevice device = 0;
  int processors = 1;
  driver().cuCtxGetDevice(&device);
  driver().cuDeviceGetAttribute(&processors, CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT, device);
  return std::min(chunks, static_cast<u32>(processors) * kBlocksPerProcessor);
}

Result<> run(CUfunction function, const Lists &lists, u32 count, u64 seed, u32 hash) {
  OwnStream own;
  CKPT_TRY(CUstream stream, own.make());
  Chunk *chunks = lists.chunks();
  Seen *seen = lists.seen();
  void *parameters[] = {&chunks, &count, &seed, &hash, &seen};
  CKPT_CHECK(as_result(driver().cuLaunchKernel(function, blocks_to_launch(count), 1, 1, kThreads, 1,
                                               1, 0, stream, parameters, nullptr),
                       "start the kernel that looks at device memory"));
  return as_result(driver().cuStreamSynchronize(stream), "look at device memory");
}

}  // namespace

Result<std::vector<Seen>> DeviceLooker::look(std::span<const Chunk> chunks, u64 seed, bool hash) {
  if (chunks.empty()) return std::vector<Seen>();
  CurrentContext current(context_);
  CKPT_CHECK(as_result(current.status(), "use a context to look at device memory"));
  LookCode code;
  CKPT_TRY(CUfunction function, code.load());
  Lists lists;
  CKPT_CHECK(lists.make(chunks.size()));
  std::memcpy(lists.chunks(), chunks.data(), chunks.size_bytes());
  CKPT_CHECK(run(function, lists, static_cast<u32>(chunks.size()), seed, hash));
  return std::vector<Seen>(lists.seen(), lists.seen() + chunks.size());
}

}  // namespace ckpt::cuda
