// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/server/layouts.h"

#include "remote/cuda/server/driver.h"

namespace ckpt::remote::cuda {
namespace {

// More than any kernel has: 32 KiB of parameters (CUDA C++ Programming Guide, "Function
// Parameters").
constexpr size_t kMaxParameters = 32u << 10;

CUresult cluster_width(void *f, bool kernel, int &out) {
  constexpr CUfunction_attribute kWidth = CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH;
  const Driver &d = driver();
  if (!kernel) return d.cuFuncGetAttribute(&out, kWidth, static_cast<CUfunction>(f));
  CUdevice device = 0;
  CUresult e = d.cuCtxGetDevice(&device);
  if (e != CUDA_SUCCESS || !d.cuKernelGetAttribute) return CUDA_ERROR_NOT_SUPPORTED;
  return d.cuKernelGetAttribute(&out, kWidth, static_cast<CUkernel>(f), device);
}

CUresult ask_driver(void *f, bool kernel, Layout &out) {
  if (kernel ? !driver().cuKernelGetParamInfo : !driver().cuFuncGetParamInfo)
    return CUDA_ERROR_NOT_SUPPORTED;
  for (size_t i = 0; i < kMaxParameters; i++) {
    Place p{};
    CUresult e =
        kernel ? driver().cuKernelGetParamInfo(static_cast<CUkernel>(f), i, &p.offset, &p.bytes)
               : driver().cuFuncGetParamInfo(static_cast<CUfunction>(f), i, &p.offset, &p.bytes);
    if (e == CUDA_ERROR_INVALID_VALUE) break;  // there is no further one
    if (e != CUDA_SUCCESS) return e;
    out.parameters.push_back(p);
  }
  if (out.parameters.size() == kMaxParameters) return CUDA_ERROR_INVALID_VALUE;
  int width = 0;
  out.by_exact_grid = cluster_width(f, kernel, width) != CUDA_SUCCESS || width != 0;
  return CUDA_SUCCESS;
}

}  // namespace

CUresult Layouts::find(u64 number, std::shared_ptr<const Layout> &out) {
  {
    std::lock_guard lock(mutex_);
    auto found = all_.find(number);
    if (found != all_.end()) out = found->second;
  }
  if (out) return CUDA_SUCCESS;
  void *f = objects_.real(Kind::Function, number);
  if (!f) return CUDA_ERROR_INVALID_HANDLE;
  auto layout = std::make_shared<Layout>();
  if (CUresult e = ask_driver(f, kind_of(number) == Kind::Kernel, *layout); e != CUDA_SUCCESS)
    return e;
  std::lock_guard lock(mutex_);
  out = all_[number] = layout;
  return CUDA_SUCCESS;
}

void Layouts::forget(u64 number) {
  std::lock_guard lock(mutex_);
  all_.erase(number);
}

}  // namespace ckpt::remote::cuda
