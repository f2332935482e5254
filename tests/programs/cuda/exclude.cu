// SPDX-License-Identifier: Apache-2.0
//
// exclude keep|exclude: 32 MiB of scratch memory that an image need not contain, and a little
// memory that it must contain.
#include <ckpt/ckpt.h>
#include <unistd.h>

#include <cstring>

#include "check.h"

int main(int argc, char **argv) {
  constexpr size_t kScratch = 32u << 20;
  void *scratch;
  int *wanted, value = 42;
  CUDA(cudaMalloc(&scratch, kScratch));
  CUDA(cudaMemset(scratch, 7, kScratch));
  CUDA(cudaMalloc(&wanted, sizeof value));
  CUDA(cudaMemcpy(wanted, &value, sizeof value, cudaMemcpyHostToDevice));
  if (argc > 1 && std::strcmp(argv[1], "exclude") == 0) CHECK(ckpt_exclude(scratch, 0) == 0);
  CHECK(ckpt_exclude(wanted + 1, 0) == CKPT_ERR_UNKNOWN);
  std::puts("step 1");
  std::fflush(stdout);
  while (access("pause", F_OK) == 0) usleep(2000);
  CUDA(cudaMemset(scratch, 1, kScratch));  // the memory still exists, with any contents
  CUDA(cudaMemcpy(&value, wanted, sizeof value, cudaMemcpyDeviceToHost));
  CHECK(value == 42);
  return passed();
}
