// SPDX-License-Identifier: Apache-2.0
//
// cuOccupancy*. The limits are those that cooperative launches are checked against.
#include <algorithm>

#include "softcuda/driver/code/code.h"
#include "softcuda/driver/work/launch.h"

using namespace ckpt::softcuda;
using namespace ckpt::softcuda::driver;

SOFTCUDA_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *blocks, CUfunction function, int threads, size_t shared, unsigned int) {
  CALL_WITH_CONTEXT();
  REQUIRE(blocks != nullptr && threads > 0, CUDA_ERROR_INVALID_VALUE);
  Function *f = nullptr;
  CHECK_CU(function_of(call.context, function, f));
  CHECK_CU(prepare(*f));
  *blocks = blocks_per_multiprocessor(*f, static_cast<ckpt::u64>(threads), shared);
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, CUfunction function,
                                                                  int threads, size_t shared) {
  return cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, 0);
}

SOFTCUDA_API CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block,
                                                                CUfunction function,
                                                                CUoccupancyB2DSize shared_of,
                                                                size_t shared, int limit,
                                                                unsigned int) {
  CALL_WITH_CONTEXT();
  REQUIRE(grid != nullptr && block != nullptr, CUDA_ERROR_INVALID_VALUE);
  Function *f = nullptr;
  CHECK_CU(function_of(call.context, function, f));
  CHECK_CU(prepare(*f));
  int max_threads_per_block = f->kernel->function().max_threads != 0
                                  ? static_cast<int>(f->kernel->function().max_threads)
                                  : static_cast<int>(kThreadsPerBlock);
  if (limit > 0) max_threads_per_block = std::min(max_threads_per_block, limit);
  int best_threads = 0;
  *grid = *block = 0;
  for (int threads = max_threads_per_block; threads > 0; threads = (threads - 1) / 32 * 32) {
    size_t dynamic = shared_of != nullptr ? shared_of(threads) : shared;
    int blocks = blocks_per_multiprocessor(*f, static_cast<ckpt::u64>(threads), dynamic);
    if (blocks * threads <= best_threads) continue;
    best_threads = blocks * threads;
    *block = threads;
    *grid = blocks * static_cast<int>(kMultiprocessors);
  }
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction function,
                                                       CUoccupancyB2DSize shared_of, size_t shared,
                                                       int limit) {
  return cuOccupancyMaxPotentialBlockSizeWithFlags(grid, block, function, shared_of, shared, limit,
                                                   0);
}

SOFTCUDA_API CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *bytes, CUfunction function,
                                                              int blocks, int threads) {
  CALL_WITH_CONTEXT();
  REQUIRE(bytes != nullptr && blocks > 0 && threads > 0, CUDA_ERROR_INVALID_VALUE);
  Function *f = nullptr;
  CHECK_CU(function_of(call.context, function, f));
  CHECK_CU(prepare(*f));
  size_t each = std::min<size_t>(kSharedPerMultiprocessor / static_cast<unsigned>(blocks),
                                 kSharedPerBlockOptin);
  *bytes = each - std::min<size_t>(each, f->kernel->static_shared());
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuOccupancyMaxPotentialClusterSize(int *size, CUfunction function,
                                                         const CUlaunchConfig *config) {
  CALL_WITH_CONTEXT();
  REQUIRE(size != nullptr && config != nullptr, CUDA_ERROR_INVALID_VALUE);
  Function *f = nullptr;
  CHECK_CU(function_of(call.context, function, f));
  *size = static_cast<int>(kBlocksPerCluster);
  return CUDA_SUCCESS;
}

SOFTCUDA_API CUresult cuOccupancyMaxActiveClusters(int *clusters, CUfunction function,
                                                   const CUlaunchConfig *config) {
  CALL_WITH_CONTEXT();
  REQUIRE(clusters != nullptr && config != nullptr, CUDA_ERROR_INVALID_VALUE);
  Function *f = nullptr;
  CHECK_CU(function_of(call.context, function, f));
  CHECK_CU(prepare(*f));
  unsigned size = 1;
  for (unsigned i = 0; i < config->numAttrs; ++i) {
    const CUlaunchAttribute &a = config->attrs[i];
    if (a.id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
      size = a.value.clusterDim.x * a.value.clusterDim.y * a.value.clusterDim.z;
  }
  REQUIRE(size > 0 && size <= kBlocksPerCluster, CUDA_ERROR_INVALID_CLUSTER_SIZE);
  ckpt::u64 threads = ckpt::u64{config->blockDimX} * config->blockDimY * config->blockDimZ;
  *clusters = blocks_per_multiprocessor(*f, threads, config->sharedMemBytes) *
              static_cast<int>(kMultiprocessors / size);
  return CUDA_SUCCESS;
}
