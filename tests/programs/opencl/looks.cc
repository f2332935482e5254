// SPDX-License-Identifier: Apache-2.0
//
// Looks at all devices and waits before it uses one. What it has seen before must be true then.
#include "cl_test.h"

static std::string text_of(cl_device_id d, cl_device_info param) {
  char text[4096] = "";
  CL(clGetDeviceInfo(d, param, sizeof text, text, nullptr));
  return text;
}

static std::string description(cl_device_id d) {
  size_t group = 0;
  cl_ulong memory = 0;
  CL(clGetDeviceInfo(d, CL_DEVICE_MAX_WORK_GROUP_SIZE, sizeof group, &group, nullptr));
  CL(clGetDeviceInfo(d, CL_DEVICE_GLOBAL_MEM_SIZE, sizeof memory, &memory, nullptr));
  return text_of(d, CL_DEVICE_NAME) + "; " + text_of(d, CL_DEVICE_VERSION) + "; " +
         text_of(d, CL_DEVICE_EXTENSIONS) + "; " + std::to_string(group) + "; " +
         std::to_string(memory);
}

int main() {
  cl_platform_id platforms[8];
  cl_uint n = 0;
  CL(clGetPlatformIDs(8, platforms, &n));
  for (cl_uint i = 0; i < n; i++) {
    cl_device_id devices[8];
    cl_uint count = 0;
    CL(clGetDeviceIDs(platforms[i], CL_DEVICE_TYPE_ALL, 8, devices, &count));
    for (cl_uint k = 0; k < count; k++) std::printf("%s\n", description(devices[k]).c_str());
  }
  pause_here();
  Cl cl;
  cl_kernel k = cl.kernel(
      cl.build("__kernel void k(__global int *m) { m[get_global_id(0)] = 7 * get_global_id(0); }"),
      "k");
  cl_mem m = cl.buffer(64 * sizeof(int));
  CL(clSetKernelArg(k, 0, sizeof m, &m));
  size_t items = 64;
  CL(clEnqueueNDRangeKernel(cl.queue, k, 1, nullptr, &items, nullptr, 0, nullptr, nullptr));
  std::vector<int> v = cl.read_ints(m, items);
  for (int i = 0; i < 64; i++) EXPECT(v[i] == 7 * i);
  return finish();
}
