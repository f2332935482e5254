// SPDX-License-Identifier: Apache-2.0
//
// A program in an intermediate language, with specialization constants. Where no device takes one
// (`none`), the call says so.
#define CL_TARGET_OPENCL_VERSION 300
#include "cl_test.h"

// What extra_options.cc takes for a module: version 1.2.
static std::string module() {
  cl_uint header[5] = {0x07230203, 0x00010200, 0, 1, 0};
  std::string out(reinterpret_cast<const char *>(header), sizeof header);
  return out +
         "#ifndef SPEC_3\n#define SPEC_3 1\n#endif\n"
         "__kernel void f(__global int *out) { out[0] = SPEC_3; out[1] = SPEC_4; }\n";
}

static void run(const Cl &cl, cl_kernel k, int third, int fourth) {
  cl_mem out = cl.buffer(8);
  CL(clSetKernelArg(k, 0, sizeof out, &out));
  CL(clEnqueueTask(cl.queue, k, 0, nullptr, nullptr));
  std::vector<int> v = cl.read_ints(out, 2);
  EXPECT(v[0] == third && v[1] == fourth);
}

static void give(cl_program p, cl_uint id, cl_int value) {
  CL(clSetProgramSpecializationConstant(p, id, sizeof value, &value));
}

int main(int argc, char **argv) {
  Cl cl;
  cl_int status;
  std::string il = module();
  cl_program p = clCreateProgramWithIL(cl.context, il.data(), il.size(), &status);
  if (argc > 1 && std::string(argv[1]) == "none") {
    EXPECT(!p && status == CL_INVALID_OPERATION);
    return finish();
  }
  CL(status);
  EXPECT(clSetProgramSpecializationConstant(p, 3, 8, "12345678") == CL_INVALID_VALUE);
  give(p, 4, 1);
  give(p, 4, 4);
  CL(clBuildProgram(p, 1, &cl.device, "", nullptr, nullptr));
  cl_kernel k = cl.kernel(p, "f");
  run(cl, k, 1, 4);
  CL(clReleaseKernel(k));
  give(p, 3, 7);
  CL(clBuildProgram(p, 1, &cl.device, "", nullptr, nullptr));
  k = cl.kernel(p, "f");
  give(p, 3, 99);  // too late for this build
  // A constant that counts from the next build on. (rusticl of Mesa 22.3.6 builds no program again
  // whose kernels have run.)
  cl_program later = clCreateProgramWithIL(cl.context, il.data(), il.size(), &status);
  CL(status);
  give(later, 4, 4);
  give(later, 3, 8);
  CL(clBuildProgram(later, 1, &cl.device, "", nullptr, nullptr));
  give(later, 3, 9);

  pause_here();

  run(cl, k, 7, 4);
  std::string back(il.size() + 8, '\0');
  size_t size = 0;
  CL(clGetProgramInfo(p, CL_PROGRAM_IL, back.size(), back.data(), &size));
  EXPECT(size == il.size() && back.compare(0, size, il) == 0);
  CL(clBuildProgram(later, 1, &cl.device, "", nullptr, nullptr));
  run(cl, cl.kernel(later, "f"), 9, 4);
  cl_program source = cl.build("__kernel void g(__global int *d) { d[0] = 1; }");
  EXPECT(clSetProgramSpecializationConstant(source, 1, 4, "abcd") == CL_INVALID_PROGRAM);
  return finish();
}
