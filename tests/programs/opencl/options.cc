// SPDX-License-Identifier: Apache-2.0
//
// Options of OpenCL 3.0, with extra_options.cc in the proxy: `sub-groups` asks about them, `none`
// where there are none; `variables` builds a program that has some at program scope.
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
  if (what == "none") no_sub_groups(cl);
  if (what == "variables") {
    cl_program p = cl.build(kSource, "-D VARIABLES");
    pause_here();
    CL(clReleaseProgram(p));
  }
  return finish();
}
