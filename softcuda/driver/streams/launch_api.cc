// SPDX-License-Identifier: Apache-2.0
//
// cuLaunch*. Compiled twice, as copy_api.cc is.
#include "softcuda/driver/graphs/capture.h"

using namespace ckpt::softcuda;
using namespace ckpt::softcuda::driver;

namespace {

CUresult launch(const void *f, vm::Dim grid, vm::Dim block, unsigned shared, CUstream stream,
                void **params, void **extra, bool cooperative, vm::Dim cluster = {0, 0, 0}) {
  CALL_WITH_STREAM(stream);
  REQUIRE(process().contexts.holds(s.context), CUDA_ERROR_INVALID_HANDLE);
  auto l = std::make_shared<Launch>();
  l->asked_cluster = cluster;
  CHECK_CU(make_launch(s.context, f, grid, block, shared, params, extra, cooperative, *l));
  if (std::shared_ptr<Capture> capture = capture_of(s)) return capture_launch(*capture, s, *l);
  s.context->note_kernel(s.context->submit(s, [c = s.context, l] { run(c, *l); }));
  return CUDA_SUCCESS;
}

}  // namespace

SOFTCUDA_API CUresult cuLaunchKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz,
                                     unsigned bx, unsigned by, unsigned bz, unsigned shared,
                                     CUstream stream, void **params, void **extra) {
  return launch(f, {gx, gy, gz}, {bx, by, bz}, shared, stream, params, extra, false);
}

SOFTCUDA_API CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned gx, unsigned gy, unsigned gz,
                                                unsigned bx, unsigned by, unsigned bz,
                                                unsigned shared, CUstream stream, void **params) {
  return launch(f, {gx, gy, gz}, {bx, by, bz}, shared, stream, params, nullptr, true);
}

// Attributes that change the result of a launch are applied or refused; those that only affect
// speed are ignored.
SOFTCUDA_API CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction f, void **params,
                                       void **extra) {
  REQUIRE(config != nullptr, CUDA_ERROR_INVALID_VALUE);
  bool cooperative = false;
  vm::Dim cluster{0, 0, 0};
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute &a = config->attrs[i];
    if (a.id == CU_LAUNCH_ATTRIBUTE_COOPERATIVE) cooperative = a.value.cooperative != 0;
    if (a.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) {
      cluster = {a.value.clusterDim.x, a.value.clusterDim.y, a.value.clusterDim.z};
      REQUIRE(cluster.count() > 0, CUDA_ERROR_INVALID_VALUE);
    }
  }
  return launch(f, {config->gridDimX, config->gridDimY, config->gridDimZ},
                {config->blockDimX, config->blockDimY, config->blockDimZ}, config->sharedMemBytes,
                config->hStream, params, extra, cooperative, cluster);
}

SOFTCUDA_API CUresult cuLaunchHostFunc(CUstream stream, CUhostFn f, void *data) {
  CALL_WITH_STREAM(stream);
  REQUIRE(f != nullptr, CUDA_ERROR_INVALID_VALUE);
  if (std::shared_ptr<Capture> capture = capture_of(s)) return capture_host(*capture, s, f, data);
  s.context->submit(s, [f, data] {
    f(data);
    set_model_time_to_now();
  });
  return CUDA_SUCCESS;
}

// CUDA 13.1. The mode says how the device waits for the host; here a thread always does.
#if CUDA_VERSION < 13010 && defined(CUDA_API_PER_THREAD_DEFAULT_STREAM)
#define cuLaunchHostFunc_v2 cuLaunchHostFunc_v2_ptsz
#endif
SOFTCUDA_API CUresult cuLaunchHostFunc_v2(CUstream stream, CUhostFn f, void *data, unsigned mode) {
  REQUIRE(mode <= 1, CUDA_ERROR_INVALID_VALUE);  // CU_HOST_TASK_BLOCKING, CU_HOST_TASK_SPINWAIT
  return cuLaunchHostFunc(stream, f, data);
}
