// SPDX-License-Identifier: Apache-2.0
//
// A stream waits for single values, which another stream or the host writes.
#include <cuda_runtime.h>

#include "driver_check.h"

__global__ void add(int *at, int by) { *at += by; }

static int read_int(const int *at) {
  int v = -1;
  OK(cuMemcpyDtoH(&v, reinterpret_cast<CUdeviceptr>(at), sizeof v));
  return v;
}

int main() {
  int *count = nullptr;
  CHECK(cudaMalloc(&count, sizeof *count) == cudaSuccess);
  CHECK(cudaMemset(count, 0, sizeof *count) == cudaSuccess);
  CUdeviceptr flag = 0;
  OK(cuMemAlloc(&flag, 64));
  OK(cuMemsetD8(flag, 0, 64));
  CUstream writes, waits;
  OK(cuStreamCreate(&writes, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&waits, CU_STREAM_NON_BLOCKING));

  OK(cuStreamWaitValue32(waits, flag, 5, CU_STREAM_WAIT_VALUE_GEQ));
  add<<<1, 1, 0, waits>>>(count, 1);
  CHECK(cuStreamQuery(waits) == CUDA_ERROR_NOT_READY);
  CHECK(read_int(count) == 0);
  OK(cuStreamWriteValue32(writes, flag, 6, 0));
  OK(cuStreamSynchronize(waits));
  CHECK(read_int(count) == 1);
  CHECK(read_int(reinterpret_cast<int *>(flag)) == 6);

  OK(cuStreamWaitValue64(waits, flag + 8, 3ull << 33, CU_STREAM_WAIT_VALUE_EQ));
  add<<<1, 1, 0, waits>>>(count, 10);
  CHECK(cuStreamQuery(waits) == CUDA_ERROR_NOT_READY);
  OK(cuStreamWriteValue64(writes, flag + 8, 3ull << 33, 0));
  OK(cuStreamSynchronize(waits));
  CHECK(read_int(count) == 11);

  volatile int *host = nullptr;
  int *there = nullptr;
  CHECK(cudaHostAlloc((void **)&host, sizeof *host, cudaHostAllocMapped) == cudaSuccess);
  CHECK(cudaHostGetDevicePointer(&there, (void *)host, 0) == cudaSuccess);
  *host = 0;
  OK(cuStreamWaitValue32(waits, reinterpret_cast<CUdeviceptr>(there), 7, CU_STREAM_WAIT_VALUE_EQ));
  add<<<1, 1, 0, waits>>>(count, 100);
  CHECK(cuStreamQuery(waits) == CUDA_ERROR_NOT_READY);
  *host = 7;
  OK(cuStreamSynchronize(waits));
  CHECK(read_int(count) == 111);

  CUstreamBatchMemOpParams batch[3] = {};
  batch[0].waitValue = {CU_STREAM_MEM_OP_WAIT_VALUE_32, flag, {21}, CU_STREAM_WAIT_VALUE_EQ, 0};
  batch[1].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, flag + 16, {22}, 0, 0};
  batch[2].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_64, flag + 24, {}, 0, 0};
  batch[2].writeValue.value64 = 5ull << 40;
  OK(cuStreamBatchMemOp(waits, 3, batch, 0));
  add<<<1, 1, 0, waits>>>(count, 1000);
  CHECK(cuStreamQuery(waits) == CUDA_ERROR_NOT_READY);
  CHECK(read_int(reinterpret_cast<int *>(flag + 16)) == 0);
  batch[0].writeValue = {CU_STREAM_MEM_OP_WRITE_VALUE_32, flag, {21}, 0, 0};
  OK(cuStreamBatchMemOp(writes, 1, batch, 0));
  OK(cuStreamSynchronize(waits));
  CHECK(read_int(count) == 1111);
  CHECK(read_int(reinterpret_cast<int *>(flag + 16)) == 22);
  unsigned long long wide = 0;
  OK(cuMemcpyDtoH(&wide, flag + 24, sizeof wide));
  CHECK(wide == 5ull << 40);
  CHECK(cuStreamBatchMemOp(waits, 0, batch, 0) == CUDA_ERROR_INVALID_VALUE);
  batch[1].flushRemoteWrites = {CU_STREAM_MEM_OP_FLUSH_REMOTE_WRITES, 0};
  CHECK(cuStreamBatchMemOp(waits, 2, batch, 0) == CUDA_ERROR_NOT_SUPPORTED);

  CHECK(cuStreamWriteValue32(writes, 16, 1, 0) == CUDA_ERROR_INVALID_VALUE);
  std::printf("PASSED\n");
}
