// SPDX-License-Identifier: Apache-2.0
//
// bandWidth (band_width.cu) for OpenCL.
#include "vectors.h"

using namespace mobile;

int main(int argc, char **argv) {
  Options o = read_options(argc, argv);
  Times t;
  size_t bytes = vector_bytes(o), n = bytes / sizeof(uint32_t);
  Device d = open_device(kAdd, "add");
  std::vector<uint32_t> first = values(n, 1), added = values(n, 2), back(n);
  cl_mem sum[2] = {buffer(d, bytes, first.data()), buffer(d, bytes)};
  cl_mem b = buffer(d, bytes, added.data());
  t.loaded = now();
  Windows w(n, o.work);
  for (size_t s = 0; s < o.steps; ++s) {
    size_t from = w.pass(s) % 2;
    launch(d, {sum[from], b, sum[1 - from]}, w.first(s), w.size);
    stepped(d, o);
  }
  t.computed = now();
  for (size_t side = 0; side < 2; ++side) {
    read_back(d, sum[side], bytes, back.data());
    for (size_t i = 0; i < n; ++i) {
      size_t passes = w.passes(i, o.steps);
      if (passes % 2 == side) CHECK(back[i] == first[i] + static_cast<uint32_t>(passes) * added[i]);
    }
  }
  return passed(t);
}
