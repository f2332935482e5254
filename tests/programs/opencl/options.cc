// SPDX-License-Identifier: Apache-2.0
//
// Optional features of OpenCL 3.0. With extra_options.cc in the proxy, `sub-groups` queries
// sub-groups and `variables` builds a program with variables at program scope. With any driver,
// `count` prints the largest number of sub-groups and `answers` the answers to all queries; `none`
// checks the error of a device without sub-groups.
#define CL_TARGET_OPENCL_VERSION 300
#include "cl_test.h"

static const char *kSource = "__kernel void f(__global int *d) { d[0] = 1; }";

static void sub_groups(const Cl &cl) {
  cl_kernel k = cl.kernel(cl.build(kSource), "f");
  size_t local[3] = {64, 4, 2}, answer = 0, size = 0;
  auto ask = [&](cl_kernel_sub_group_info param, size_t bytes) {
    return clGetKernelSubGroupInfo(k, cl.device, param, bytes, bytes ? local : nullptr,
                                   sizeof answer, &answer, &size);
  };
  CL(ask(CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE, sizeof local));
  EXPECT(answer == 64 + 4 + 2 + 3 && size == sizeof answer);  // 0x2033
  CL(ask(CL_KERNEL_SUB_GROUP_COUNT_FOR_NDRANGE, sizeof local[0]));
  EXPECT(answer == 64 + 4);  // 0x2034
  CL(ask(CL_KERNEL_MAX_NUM_SUB_GROUPS, 0));
  EXPECT(answer == 9);  // 0x11b9
  EXPECT(ask(CL_KERNEL_LOCAL_SIZE_FOR_SUB_GROUP_COUNT, 3) == CL_INVALID_VALUE);
  EXPECT(clGetKernelSubGroupInfo(nullptr, cl.device, 0, 0, nullptr, 0, nullptr, nullptr) ==
         CL_INVALID_KERNEL);
}

static void count(const Cl &cl) {
  cl_uint most = 0;
  clGetDeviceInfo(cl.device, CL_DEVICE_MAX_NUM_SUB_GROUPS, sizeof most, &most, nullptr);
  std::printf("%u\n", most);
}

static void answers(const Cl &cl) {
  cl_kernel k = cl.kernel(cl.build(kSource), "f");
  size_t local[3] = {64, 4, 2}, group[3] = {}, size = 0;
  for (cl_kernel_sub_group_info param :
       {CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE, CL_KERNEL_SUB_GROUP_COUNT_FOR_NDRANGE})
    for (size_t bytes : {sizeof local, sizeof local[0]}) {
      size_t answer = 0;
      cl_int r =
          clGetKernelSubGroupInfo(k, cl.device, param, bytes, local, sizeof answer, &answer, &size);
      std::printf("%x of %zu: %d, %zu in %zu bytes\n", param, bytes, r, answer, size);
    }
  size_t one = 1, most = 0;
  cl_int r = clGetKernelSubGroupInfo(k, cl.device, CL_KERNEL_LOCAL_SIZE_FOR_SUB_GROUP_COUNT,
                                     sizeof one, &one, sizeof group, group, &size);
  std::printf("one sub-group: %d, %zu × %zu × %zu in %zu bytes\n", r, group[0], group[1], group[2],
              size);
  r = clGetKernelSubGroupInfo(k, cl.device, CL_KERNEL_MAX_NUM_SUB_GROUPS, 0, nullptr, sizeof most,
                              &most, &size);
  std::printf("at most: %d, %zu in %zu bytes\n", r, most, size);
}

static void no_sub_groups(const Cl &cl) {
  cl_kernel k = cl.kernel(cl.build(kSource), "f");
  size_t answer = 0;
  EXPECT(clGetKernelSubGroupInfo(k, cl.device, CL_KERNEL_MAX_NUM_SUB_GROUPS, 0, nullptr,
                                 sizeof answer, &answer, nullptr) == CL_INVALID_OPERATION);
}

int main(int, char **argv) {
  Cl cl;
  std::string what = argv[1] ? argv[1] : "";
  if (what == "sub-groups") sub_groups(cl);
  if (what == "count") {
    count(cl);
    return 0;
  }
  if (what == "answers") answers(cl);
  if (what == "none") no_sub_groups(cl);
  if (what == "variables") {
    cl_program p = cl.build(kSource, "-D VARIABLES");
    pause_here();
    CL(clReleaseProgram(p));
  }
  return finish();
}
