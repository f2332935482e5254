// SPDX-License-Identifier: Apache-2.0
//
// Two work-groups that wait for each other, which only works if both are on the device at once. It
// is what slices must not break. Before and after it, launches in the same queue.
#include "cl_test.h"

int main() {
  Cl cl;
  cl_program p = cl.build(R"(
__kernel void meet(volatile __global int *arrived, __global int *out) {
  atomic_inc(out + get_group_id(0));
  atomic_inc(arrived);
  while (atomic_add(arrived, 0) < (int)get_num_groups(0)) {
  }
  out[2 + get_group_id(0)] = 10 + atomic_add(out + 1 - get_group_id(0), 0);
}
__kernel void add(__global int *out, int n) { out[get_global_id(0)] += n; }
)");
  std::vector<int> zeros(8);
  cl_mem out = cl.buffer(8 * sizeof(int), CL_MEM_COPY_HOST_PTR, zeros.data());
  cl_mem arrived = cl.buffer(sizeof(int), CL_MEM_COPY_HOST_PTR, zeros.data());
  cl_kernel meet = cl.kernel(p, "meet"), add = cl.kernel(p, "add");
  size_t groups = 2, one = 1, items = 8;
  int hundred = 100, zero = 0;
  CL(clSetKernelArg(add, 0, sizeof out, &out));
  CL(clSetKernelArg(add, 1, sizeof hundred, &hundred));
  CL(clSetKernelArg(meet, 0, sizeof arrived, &arrived));
  CL(clSetKernelArg(meet, 1, sizeof out, &out));
  for (int round = 0; round < 2; round++) {
    CL(clEnqueueFillBuffer(cl.queue, arrived, &zero, 4, 0, 4, 0, nullptr, nullptr));
    CL(clEnqueueNDRangeKernel(cl.queue, add, 1, nullptr, &items, &one, 0, nullptr, nullptr));
    CL(clEnqueueNDRangeKernel(cl.queue, meet, 1, nullptr, &groups, &one, 0, nullptr, nullptr));
  }
  CL(clEnqueueNDRangeKernel(cl.queue, add, 1, nullptr, &items, &one, 0, nullptr, nullptr));
  std::vector<int> end = cl.read_ints(out, 8);
  EXPECT(end[0] == 302 && end[1] == 302);
  EXPECT(end[2] == 312 && end[3] == 312);
  EXPECT(end[7] == 300);
  return finish();
}
