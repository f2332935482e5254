// SPDX-License-Identifier: Apache-2.0
//
// pcie (pcie.cu) for OpenCL.
#include "vectors.h"

using namespace mobile;

int main(int argc, char **argv) {
  Options o = read_options(argc, argv);
  Times t;
  size_t bytes = vector_bytes(o), n = bytes / sizeof(uint32_t);
  Device d = open_device(kAdd, "add");
  std::vector<uint32_t> left = values(n, 1), right = values(n, 2), sum(n);
  cl_mem a = buffer(d, bytes), b = buffer(d, bytes), c = buffer(d, bytes);
  t.loaded = now();
  Windows w(n, o.work);
  for (size_t s = 0; s < o.steps; ++s) {
    size_t at = w.first(s);
    left[at] += 1;  // each step has a new input
    CL(clEnqueueWriteBuffer(d.queue, a, CL_TRUE, 0, bytes, left.data(), 0, nullptr, nullptr));
    CL(clEnqueueWriteBuffer(d.queue, b, CL_TRUE, 0, bytes, right.data(), 0, nullptr, nullptr));
    launch(d, {a, b, c}, at, w.size);
    read_back(d, c, bytes, sum.data());
    for (size_t i = at; i < at + w.size; ++i) CHECK(sum[i] == left[i] + right[i]);
    host_works(o.gap);
  }
  t.computed = now();
  for (size_t i = 0; i < n; ++i)
    CHECK(sum[i] == (w.passes(i, o.steps) > 0 ? left[i] + right[i] : 0));
  return passed(t);
}
