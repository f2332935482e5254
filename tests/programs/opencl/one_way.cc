// SPDX-License-Identifier: Apache-2.0
//
// Launches that differ from accepted ones in their offset and global size only. The test stops the
// proxy meanwhile, so they return only if they do not wait for its answer.
#include <algorithm>

#include "cl_test.h"

static const char *const kSource =
    "__kernel void count(__global uint *d) { d[get_global_id(0)] += 1; }\n";
static constexpr size_t kItems = 128, kLocal = 16;

int main() {
  Cl cl;
  cl_kernel count = cl.kernel(cl.build(kSource), "count");
  std::vector<cl_uint> expected(kItems, 0);
  cl_mem m = cl.buffer(kItems * sizeof(cl_uint), CL_MEM_COPY_HOST_PTR, expected.data());
  CL(clSetKernelArg(count, 0, sizeof m, &m));
  auto launch = [&](size_t offset, size_t size) {
    CL(clEnqueueNDRangeKernel(cl.queue, count, 1, &offset, &size, &kLocal, 0, nullptr, nullptr));
    for (size_t i = offset; i < offset + size; i++) expected[i]++;
  };
  launch(0, 64);
  launch(16, 64);
  CL(clFinish(cl.queue));
  pause_here();
  for (size_t offset : {1, 7, 16, 32})
    for (size_t size : {64, 80}) launch(offset, size);
  std::printf("ENQUEUED\n");
  std::fflush(stdout);
  std::vector<int> found = cl.read_ints(m, kItems);
  EXPECT(std::equal(found.begin(), found.end(), expected.begin()));
  return finish();
}
