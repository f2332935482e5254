// SPDX-License-Identifier: Apache-2.0
//
// Writes 24 MiB that can be compressed and 8 MiB that cannot, changes all of it in a kernel, reads
// it and checks it: sixteen pieces of different sizes, so that transfers of many lengths follow
// each other.
#include "cl_test.h"

static std::vector<unsigned> content(size_t words) {
  std::vector<unsigned> all(words);
  unsigned x = 12345;
  for (size_t i = 0; i < words; i++) {
    x = x * 1664525 + 1013904223;
    all[i] = i < words / 4 * 3 ? x >> 29 : x ^ (x << 13);
  }
  return all;
}

int main() {
  Cl cl;
  constexpr size_t kWords = 8u << 20, kPieces = 16;
  std::vector<unsigned> sent = content(kWords), back(kWords);
  cl_mem m = cl.buffer(kWords * 4);
  for (size_t i = 0, at = 0; i < kPieces; i++) {
    size_t words = i + 1 == kPieces ? kWords - at : kWords / kPieces + (i % 5) * 10'001 - 20'000;
    CL(clEnqueueWriteBuffer(cl.queue, m, CL_TRUE, at * 4, words * 4, &sent[at], 0, nullptr,
                            nullptr));
    at += words;
  }
  cl_kernel k =
      cl.kernel(cl.build("kernel void k(global uint *m) { m[get_global_id(0)] += 3; }"), "k");
  size_t n = kWords;
  CL(clSetKernelArg(k, 0, sizeof m, &m));
  CL(clEnqueueNDRangeKernel(cl.queue, k, 1, nullptr, &n, nullptr, 0, nullptr, nullptr));
  CL(clEnqueueReadBuffer(cl.queue, m, CL_TRUE, 0, kWords * 4, back.data(), 0, nullptr, nullptr));
  bool equal = true;
  for (size_t i = 0; i < kWords; i++) equal &= back[i] == sent[i] + 3;
  EXPECT(equal);
  return finish();
}
