// SPDX-License-Identifier: Apache-2.0
#include "tools/node_bench/copies.h"

#include <dlfcn.h>

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

#include <algorithm>
#include <chrono>
#include <functional>

#include "common/base/bytes.h"
#include "common/base/clock.h"
#include "common/base/log.h"

namespace ckpt::tools {
namespace {

constexpr int kLeastCopies = 5;

// GB/s of the fastest round; 0 if a copy fails.
double rate_of(size_t bytes, double seconds, const std::function<bool()> &copy) {
  if (!copy()) return 0;
  double best = 1e30;
  const Clock::time_point begun = Clock::now();
  for (int i = 0; i < kLeastCopies || seconds_since(begun) < seconds; i++) {
    Clock::time_point round = Clock::now();
    if (!copy()) return 0;
    best = std::min(best, seconds_since(round));
  }
  return static_cast<double>(bytes) / best / 1e9;
}

template <class F>
F symbol(void *library, const char *name) {
  return reinterpret_cast<F>(::dlsym(library, name));
}
#define LOADED(library, name) auto *name##_ = symbol<decltype(&name)>(library, #name)

void add_opencl(std::vector<CopyRates> &rates, size_t bytes, double seconds) {
  void *cl = ::dlopen("libOpenCL.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!cl) return;
  LOADED(cl, clGetPlatformIDs);
  LOADED(cl, clGetDeviceIDs);
  LOADED(cl, clGetDeviceInfo);
  LOADED(cl, clCreateContext);
  LOADED(cl, clCreateCommandQueue);
  LOADED(cl, clCreateBuffer);
  LOADED(cl, clEnqueueWriteBuffer);
  LOADED(cl, clEnqueueReadBuffer);
  cl_platform_id platforms[16];
  cl_uint count = 0;
  if (!clGetPlatformIDs_ || clGetPlatformIDs_(16, platforms, &count) != CL_SUCCESS) return;
  for (cl_uint p = 0; p < std::min(count, 16u); p++) {
    cl_device_id devices[16];
    cl_uint n = 0;
    if (clGetDeviceIDs_(platforms[p], CL_DEVICE_TYPE_ALL, 16, devices, &n) != CL_SUCCESS) continue;
    for (cl_uint d = 0; d < std::min(n, 16u); d++) {
      char name[256] = "";
      clGetDeviceInfo_(devices[d], CL_DEVICE_NAME, sizeof name - 1, name, nullptr);
      cl_int status = 0;
      cl_context context = clCreateContext_(nullptr, 1, &devices[d], nullptr, nullptr, &status);
      if (status != CL_SUCCESS) continue;
      cl_command_queue queue = clCreateCommandQueue_(context, devices[d], 0, &status);
      if (status != CL_SUCCESS) continue;
      cl_mem buffer = clCreateBuffer_(context, CL_MEM_READ_WRITE, bytes, nullptr, &status);
      if (status != CL_SUCCESS) continue;
      std::vector<char> host(bytes, 1);
      CopyRates r{"ocl", name, 0, 0};
      r.host_to_device = rate_of(bytes, seconds, [&] {
        return clEnqueueWriteBuffer_(queue, buffer, CL_TRUE, 0, bytes, host.data(), 0, nullptr,
                                     nullptr) == CL_SUCCESS;
      });
      r.device_to_host = rate_of(bytes, seconds, [&] {
        return clEnqueueReadBuffer_(queue, buffer, CL_TRUE, 0, bytes, host.data(), 0, nullptr,
                                    nullptr) == CL_SUCCESS;
      });
      if (r.host_to_device > 0 && r.device_to_host > 0) rates.push_back(std::move(r));
    }
  }
}

// CUDA's driver API, as far as it is needed here; the toolkit's header may not be installed.
void add_cuda(std::vector<CopyRates> &rates, size_t bytes, double seconds) {
  void *cuda = ::dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
  if (!cuda) return;
  auto init = symbol<int (*)(unsigned)>(cuda, "cuInit");
  auto count_of = symbol<int (*)(int *)>(cuda, "cuDeviceGetCount");
  auto name_of = symbol<int (*)(char *, int, int)>(cuda, "cuDeviceGetName");
  auto retain = symbol<int (*)(void **, int)>(cuda, "cuDevicePrimaryCtxRetain");
  auto set_current = symbol<int (*)(void *)>(cuda, "cuCtxSetCurrent");
  auto allocate = symbol<int (*)(u64 *, size_t)>(cuda, "cuMemAlloc_v2");
  auto to_device = symbol<int (*)(u64, const void *, size_t)>(cuda, "cuMemcpyHtoD_v2");
  auto to_host = symbol<int (*)(void *, u64, size_t)>(cuda, "cuMemcpyDtoH_v2");
  int count = 0;
  if (!init || !to_host || init(0) != 0 || count_of(&count) != 0) return;
  for (int d = 0; d < count; d++) {
    char name[256] = "";
    void *context = nullptr;
    u64 memory = 0;
    if (name_of(name, sizeof name - 1, d) != 0 || retain(&context, d) != 0 ||
        set_current(context) != 0 || allocate(&memory, bytes) != 0)
      continue;
    std::vector<char> host(bytes, 1);
    CopyRates r{"cuda", name, 0, 0};
    r.host_to_device =
        rate_of(bytes, seconds, [&] { return to_device(memory, host.data(), bytes) == 0; });
    r.device_to_host =
        rate_of(bytes, seconds, [&] { return to_host(host.data(), memory, bytes) == 0; });
    if (r.host_to_device > 0 && r.device_to_host > 0) rates.push_back(std::move(r));
  }
}

}  // namespace

std::vector<CopyRates> copy_rates(size_t megabytes, double seconds) {
  std::vector<CopyRates> rates;
  add_opencl(rates, megabytes * 1'000'000, seconds);
  add_cuda(rates, megabytes * 1'000'000, seconds);
  return rates;
}

}  // namespace ckpt::tools
