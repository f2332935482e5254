// SPDX-License-Identifier: Apache-2.0
//
// What is known of programs stays the same on another device: the log of a build that failed, a
// program that was linked with a library, one from the binary of such a program, and one that
// prints.
#include "cl_test.h"

static cl_program from_text(const Cl &cl, const char *text) {
  cl_int status;
  cl_program p = clCreateProgramWithSource(cl.context, 1, &text, nullptr, &status);
  CL(status);
  return p;
}

static cl_program compiled(const Cl &cl, const char *text) {
  cl_program p = from_text(cl, text);
  CL(clCompileProgram(p, 1, &cl.device, "", 0, nullptr, nullptr, nullptr, nullptr));
  return p;
}

static cl_program linked(const Cl &cl, std::vector<cl_program> inputs, const char *options) {
  cl_int status;
  cl_program p = clLinkProgram(cl.context, 1, &cl.device, options, (cl_uint)inputs.size(),
                               inputs.data(), nullptr, nullptr, &status);
  CL(status);
  for (cl_program in : inputs) CL(clReleaseProgram(in));
  return p;
}

static cl_program from_binary(const Cl &cl, cl_program of) {
  size_t size = 0;
  CL(clGetProgramInfo(of, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, nullptr));
  std::vector<unsigned char> bytes(size);
  unsigned char *place = bytes.data();
  CL(clGetProgramInfo(of, CL_PROGRAM_BINARIES, sizeof place, &place, nullptr));
  const unsigned char *binary = place;
  cl_int status;
  cl_program p =
      clCreateProgramWithBinary(cl.context, 1, &cl.device, &size, &binary, nullptr, &status);
  CL(status);
  CL(clBuildProgram(p, 1, &cl.device, "", nullptr, nullptr));
  return p;
}

// The status, the type of the binary and the log.
static std::string facts(const Cl &cl, cl_program p) {
  cl_build_status status = 0;
  cl_program_binary_type type = 0;
  size_t size = 0;
  CL(clGetProgramBuildInfo(p, cl.device, CL_PROGRAM_BUILD_STATUS, sizeof status, &status, nullptr));
  CL(clGetProgramBuildInfo(p, cl.device, CL_PROGRAM_BINARY_TYPE, sizeof type, &type, nullptr));
  CL(clGetProgramBuildInfo(p, cl.device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &size));
  std::string log(size, '\0');
  CL(clGetProgramBuildInfo(p, cl.device, CL_PROGRAM_BUILD_LOG, size, log.data(), nullptr));
  return std::to_string(status) + " " + std::to_string(type) + " " + log;
}

static int result(const Cl &cl, cl_program p) {
  cl_kernel k = cl.kernel(p, "k");
  cl_mem m = cl.buffer(64 * sizeof(int));
  size_t n = 64;
  CL(clSetKernelArg(k, 0, sizeof m, &m));
  CL(clEnqueueNDRangeKernel(cl.queue, k, 1, nullptr, &n, nullptr, 0, nullptr, nullptr));
  int value = cl.read_ints(m, 64)[5];
  CL(clReleaseKernel(k));
  CL(clReleaseMemObject(m));
  return value;
}

int main() {
  Cl cl;
  cl_program broken = from_text(cl, "kernel void k(global int *p) { p[0] = missing_name; }\n");
  EXPECT(clBuildProgram(broken, 1, &cl.device, "", nullptr, nullptr) == CL_BUILD_PROGRAM_FAILURE);
  cl_program library =
      linked(cl, {compiled(cl, "int twice(int v) { return 2 * v; }\n")}, "-create-library");
  const char *main_text =
      "int twice(int v);\n"
      "kernel void k(global int *p) { p[get_global_id(0)] = twice(get_global_id(0)); }\n";
  cl_program whole = linked(cl, {compiled(cl, main_text), library}, "");
  cl_program copy = from_binary(cl, whole);
  cl_program printing = cl.build(
      "kernel void k(global int *p) {\n"
      "  p[get_global_id(0)] = 7;\n"
      "  if (p[0] == 8) printf(\"never %d\\n\", 1);\n"
      "}\n");
  std::string of_broken = facts(cl, broken), of_whole = facts(cl, whole);
  EXPECT(of_broken.starts_with("-2 ") && of_broken.find("missing_name") != std::string::npos);

  pause_here();

  EXPECT(facts(cl, broken) == of_broken);
  EXPECT(facts(cl, whole) == of_whole);
  EXPECT(result(cl, whole) == 10);
  EXPECT(result(cl, copy) == 10);
  EXPECT(result(cl, printing) == 7);
  return finish();
}
