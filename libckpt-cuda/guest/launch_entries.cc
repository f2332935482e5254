// SPDX-License-Identifier: Apache-2.0
//
// Launches under ckpt-run --guest or --slice.
#include "libckpt-cuda/calls/calls.h"
#include "libckpt-cuda/entry/driver.h"
#include "libckpt-cuda/guest/launches.h"
#include "libckpt-cuda/guest/priorities.h"
#include "libckpt-cuda/guest/sliced_launch.h"

namespace ckpt::cuda {
namespace {

using guest::explicit_stream;
using guest::Kernel;
using guest::LaunchRequest;

// `part` launches a part of the request.
template <class Part>
CUresult launch(Kernel &kernel, const LaunchRequest &request, Part part) {
  return guest::launch_sliced(
      kernel, request, &part,
      [](const void *self, const slicing::Dim &grid, CUstream stream, void **params, void **extra) {
        return with_memory(
            [&] { return (*static_cast<const Part *>(self))(grid, stream, params, extra); });
      });
}

struct Block {
  unsigned x, y, z, shared;
};

CUresult launch_kernel(CUfunction f, slicing::Dim grid, Block b, CUstream stream, void **params,
                       void **extra) {
  Kernel *kernel = guest::kernel_of(f);
  auto part = [&](const slicing::Dim &g, CUstream s, void **p, void **e) {
    return driver().cuLaunchKernel(f, g[0], g[1], g[2], b.x, b.y, b.z, b.shared, s, p, e);
  };
  if (kernel == nullptr) return with_memory([&] { return part(grid, stream, params, extra); });
  return launch(*kernel, {grid, stream, params, extra}, part);
}

// Attributes of a launch with which each slice is what the whole would be.
bool can_be_cut(const CUlaunchAttribute &a) {
  switch (a.id) {
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE: return a.value.cooperative == 0;
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT: return true;
    default: return false;
  }
}

const char *whole_by_attributes(const CUlaunchConfig &c) {
  for (unsigned i = 0; c.attrs != nullptr && i < c.numAttrs; ++i)
    if (!can_be_cut(c.attrs[i])) return "its launch is cooperative, in clusters or with events";
  return nullptr;
}

CUresult launch_with_config(const CUlaunchConfig &config, CUstream stream, CUfunction f,
                            void **params, void **extra, bool in_order = false) {
  auto part = [&](const slicing::Dim &g, CUstream s, void **p, void **e) {
    CUlaunchConfig c = config;
    c.gridDimX = g[0], c.gridDimY = g[1], c.gridDimZ = g[2], c.hStream = s;
    guest::LowestPriority lowest(c);
    return REAL(cuLaunchKernelEx)(&c, f, p, e);
  };
  slicing::Dim grid{config.gridDimX, config.gridDimY, config.gridDimZ};
  Kernel *kernel = guest::kernel_of(f);
  if (kernel == nullptr) return with_memory([&] { return part(grid, stream, params, extra); });
  return launch(*kernel, {grid, stream, params, extra, whole_by_attributes(config), in_order},
                part);
}

CUresult launch_cooperative(CUfunction f, slicing::Dim grid, Block b, CUstream stream,
                            void **params) {
  auto part = [&](const slicing::Dim &g, CUstream s, void **p, void **) {
    return REAL(cuLaunchCooperativeKernel)(f, g[0], g[1], g[2], b.x, b.y, b.z, b.shared, s, p);
  };
  Kernel *kernel = guest::kernel_of(f);
  if (kernel == nullptr) return with_memory([&] { return part(grid, stream, params, nullptr); });
  return launch(*kernel, {grid, stream, params, nullptr, "its launch is cooperative"}, part);
}

// Launches of CUDA 3. Their parameters are set one by one, so they cannot get the added one.
CUresult refuse_if_changed(Id id, CUfunction f, CUresult (*real)(CUfunction, const void *),
                           const void *arguments) {
  PASS_OR_RETURN(pass);
  Kernel *kernel = guest::kernel_of(f);
  if (kernel != nullptr && kernel->facts.takes_slice)
    return refuse(id, "with --guest or --slice, kernels are launched by cuLaunchKernel only");
  return with_memory([&] { return real(f, arguments); });
}

}  // namespace

namespace guest {

CUstream explicit_stream(CUstream stream, bool per_thread) {
  if (stream != nullptr) return stream;
  return per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

CUresult launch_in_order(const CUlaunchConfig &config, CUfunction f, void **params, void **extra) {
  return launch_with_config(config, config.hStream, f, params, extra, true);
}

}  // namespace guest

CUresult guest_cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                              unsigned by, unsigned bz, unsigned shared, CUstream stream,
                              void **params, void **extra) {
  PASS_OR_RETURN(pass);
  return launch_kernel(f, {gx, gy, gz}, {bx, by, bz, shared}, explicit_stream(stream, false),
                       params, extra);
}
CUresult guest_cuLaunchKernel_ptsz(CUfunction f, unsigned gx, unsigned gy, unsigned gz, unsigned bx,
                                   unsigned by, unsigned bz, unsigned shared, CUstream stream,
                                   void **params, void **extra) {
  PASS_OR_RETURN(pass);
  return launch_kernel(f, {gx, gy, gz}, {bx, by, bz, shared}, explicit_stream(stream, true), params,
                       extra);
}

CUresult guest_cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **params,
                                void **extra) {
  PASS_OR_RETURN(pass);
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return launch_with_config(*config, explicit_stream(config->hStream, false), f, params, extra);
}
CUresult guest_cuLaunchKernelEx_ptsz(const CUlaunchConfig *config, CUfunction f, void **params,
                                     void **extra) {
  PASS_OR_RETURN(pass);
  if (config == nullptr) return CUDA_ERROR_INVALID_VALUE;
  return launch_with_config(*config, explicit_stream(config->hStream, true), f, params, extra);
}

CUresult guest_cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz,
                                         unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                         CUstream stream, void **params) {
  PASS_OR_RETURN(pass);
  return launch_cooperative(f, {gx, gy, gz}, {bx, by, bz, shared}, explicit_stream(stream, false),
                            params);
}
CUresult guest_cuLaunchCooperativeKernel_ptsz(CUfunction f, unsigned gx, unsigned gy, unsigned gz,
                                              unsigned bx, unsigned by, unsigned bz,
                                              unsigned shared, CUstream stream, void **params) {
  PASS_OR_RETURN(pass);
  return launch_cooperative(f, {gx, gy, gz}, {bx, by, bz, shared}, explicit_stream(stream, true),
                            params);
}

CUresult guest_cuLaunchCooperativeKernelMultiDevice(CUDA_LAUNCH_PARAMS *list, unsigned n,
                                                    unsigned flags) {
  PASS_OR_RETURN(pass);
  for (unsigned i = 0; list != nullptr && i < n; ++i)
    if (Kernel *kernel = guest::kernel_of(list[i].function); kernel && kernel->facts.takes_slice)
      return refuse(Id::id_cuLaunchCooperativeKernelMultiDevice,
                    "with --guest or --slice, a launch is for one device");
  return with_memory([&] { return REAL(cuLaunchCooperativeKernelMultiDevice)(list, n, flags); });
}

CUresult guest_cuLaunch(CUfunction f) {
  return refuse_if_changed(
      Id::id_cuLaunch, f, [](CUfunction k, const void *) { return REAL(cuLaunch)(k); }, nullptr);
}
CUresult guest_cuLaunchGrid(CUfunction f, int width, int height) {
  const int grid[] = {width, height};
  return refuse_if_changed(
      Id::id_cuLaunchGrid, f,
      [](CUfunction k, const void *g) {
        return REAL(cuLaunchGrid)(k, static_cast<const int *>(g)[0],
                                  static_cast<const int *>(g)[1]);
      },
      grid);
}
CUresult guest_cuLaunchGridAsync(CUfunction f, int width, int height, CUstream stream) {
  struct Request {
    int width, height;
    CUstream stream;
  } request{width, height, stream};
  return refuse_if_changed(
      Id::id_cuLaunchGridAsync, f,
      [](CUfunction k, const void *p) {
        auto *r = static_cast<const Request *>(p);
        return REAL(cuLaunchGridAsync)(k, r->width, r->height, r->stream);
      },
      &request);
}

}  // namespace ckpt::cuda
