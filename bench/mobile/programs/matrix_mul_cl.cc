// SPDX-License-Identifier: Apache-2.0
//
// matrixMul (matrix_mul.cu) for OpenCL: one work-group for each product, one work-item for each
// element.
#include "opencl.h"
#include "tiles.h"

using namespace mobile;

// 256 is kOutput, 512 is kInput.
const char *const kSource = R"(
kernel void multiply(global const float *a, global const float *b, global float *c) {
  local float left[512], right[512];
  size_t product = get_global_id(0) / 256, item = get_local_id(0), x = item % 16, y = item / 16;
  for (size_t i = item; i < 512; i += 256) {
    left[i] = a[product * 512 + i];
    right[i] = b[product * 512 + i];
  }
  barrier(CLK_LOCAL_MEM_FENCE);
  float sum = 0;
  for (size_t k = 0; k < 32; ++k) sum += left[y * 32 + k] * right[k * 16 + x];
  c[product * 256 + item] += sum;
})";

int main(int argc, char **argv) {
  Options o = read_options(argc, argv);
  Times t;
  size_t bytes = vector_bytes(o), n = bytes / sizeof(float), products = n / kInput;
  Device d = open_device(kSource, "multiply");
  std::vector<float> left = small_numbers(n, 1), right = small_numbers(n, 2), back(n);
  cl_mem a = buffer(d, bytes, left.data()), b = buffer(d, bytes, right.data());
  cl_mem c = buffer(d, bytes);
  t.loaded = now();
  Windows w(products, o.work);
  for (size_t s = 0; s < o.steps; ++s) {
    launch(d, {a, b, c}, w.first(s) * kOutput, w.size * kOutput, &kOutput);
    stepped(d, o);
  }
  t.computed = now();
  read_back(d, c, bytes, back.data());
  for (size_t p = 0; p < products; ++p)
    CHECK(is_product(&left[p * kInput], &right[p * kInput], &back[p * kOutput],
                     w.passes(p, o.steps)));
  return passed(t);
}
