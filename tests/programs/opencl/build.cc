// SPDX-License-Identifier: Apache-2.0
//
// build SOURCE OPTIONS [FOLDER [compile]]: builds the file SOURCE in FOLDER, which it enters after
// its first call of OpenCL, and prints what its kernel `k` writes. `compile`: with
// clCompileProgram, which also gets the header given.h, and clLinkProgram.
#include <fstream>
#include <iterator>

#include "cl_test.h"

static cl_program source_program(const Cl &cl, const std::string &text) {
  cl_int status;
  const char *c = text.c_str();
  cl_program p = clCreateProgramWithSource(cl.context, 1, &c, nullptr, &status);
  CL(status);
  return p;
}

static cl_program compiled(const Cl &cl, const std::string &text, const char *options) {
  cl_program p = source_program(cl, text), given = source_program(cl, "#define GIVEN 1000\n");
  const char *name = "given.h";
  cl_int status;
  CL(clCompileProgram(p, 1, &cl.device, options, 1, &given, &name, nullptr, nullptr));
  cl_program linked =
      clLinkProgram(cl.context, 1, &cl.device, nullptr, 1, &p, nullptr, nullptr, &status);
  CL(status);
  return linked;
}

int main(int argc, char **argv) {
  std::ifstream in(argv[1]);
  std::string text{std::istreambuf_iterator<char>(in), {}};
  Cl cl;
  cl_uint devices = 0;
  CL(clGetDeviceIDs(cl.platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &devices));
  std::printf("devices %u\n", devices);
  if (argc > 3) EXPECT(::chdir(argv[3]) == 0);
  cl_program p = argc > 4 ? compiled(cl, text, argv[2]) : cl.build(text, argv[2]);
  cl_kernel k = cl.kernel(p, "k");
  cl_mem m = cl.buffer(64 * sizeof(int));
  CL(clSetKernelArg(k, 0, sizeof m, &m));
  pause_here();
  size_t n = 64;
  CL(clEnqueueNDRangeKernel(cl.queue, k, 1, nullptr, &n, nullptr, 0, nullptr, nullptr));
  std::printf("wrote %d\n", cl.read_ints(m, 64)[5]);
  return finish();
}
