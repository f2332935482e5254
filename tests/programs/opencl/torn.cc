// SPDX-License-Identifier: Apache-2.0
//
// A thread launches kernels that set a whole buffer, while others read and write all of it in
// the same in-order queue. Each is one command: no buffer has words of two commands.
#include <algorithm>
#include <atomic>
#include <thread>

#include "cl_test.h"

static constexpr size_t kWords = 4u << 20;  // several pieces of a transfer

struct Both : Cl {
  cl_mem m = buffer(kWords * 4);
  cl_kernel set = kernel(
      build("__kernel void set(__global uint *d, uint v) { d[get_global_id(0)] = v; }"), "set");
  std::atomic<bool> stop{false};

  void launch(unsigned v) const {
    size_t n = kWords;
    CL(clSetKernelArg(set, 0, sizeof m, &m));
    CL(clSetKernelArg(set, 1, sizeof v, &v));
    CL(clEnqueueNDRangeKernel(queue, set, 1, nullptr, &n, nullptr, 0, nullptr, nullptr));
    CL(clFinish(queue));
  }
  static bool all_equal(const unsigned *words) {
    return std::all_of(words, words + kWords, [&](unsigned w) { return w == words[0]; });
  }
  void read(std::vector<unsigned> &words) const {
    CL(clEnqueueReadBuffer(queue, m, CL_TRUE, 0, kWords * 4, words.data(), 0, nullptr, nullptr));
    EXPECT(all_equal(words.data()));
  }
  void write(std::vector<unsigned> &words, unsigned v) const {
    words.assign(kWords, v);
    CL(clEnqueueWriteBuffer(queue, m, CL_TRUE, 0, kWords * 4, words.data(), 0, nullptr, nullptr));
  }
};

int main() {
  Both both;
  both.launch(0);
  std::thread kernels([&] {
    for (unsigned v = 1; !both.stop; v++) both.launch(v);
  });
  std::vector<unsigned> words(kWords);
  for (unsigned i = 0; i < 40; i++) both.read(words);
  std::thread writes([&] {
    std::vector<unsigned> own(kWords);
    for (unsigned v = 1; !both.stop; v++) both.write(own, v << 16);
  });
  for (unsigned i = 0; i < 40; i++) both.read(words);
  both.stop = true;
  kernels.join();
  writes.join();
  both.read(words);
  return finish();
}
