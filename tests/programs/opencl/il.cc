// SPDX-License-Identifier: Apache-2.0
//
// A program in an intermediate language, with specialization constants: in that of extra_options.cc
// without an argument, in SPIR-V with `real`. `version` prints the versions that the device
// supports; `none` checks the error of a device that supports none.
#define CL_TARGET_OPENCL_VERSION 300
#include "cl_test.h"

// A module as extra_options.cc expects it, version 1.2.
static std::string module() {
  cl_uint header[5] = {0x07230203, 0x00010200, 0, 1, 0};
  std::string out(reinterpret_cast<const char *>(header), sizeof header);
  return out +
         "#ifndef SPEC_3\n#define SPEC_3 1\n#endif\n"
         "__kernel void f(__global int *out) { out[0] = SPEC_3; out[1] = SPEC_4; }\n";
}

// The same kernel in SPIR-V 1.0 (SPIR-V specification, section 3.49; OpenCL environment
// specification).
static std::string spirv() {
  enum : cl_uint {
    kVoid = 1,
    kInt,
    kPointer,
    kFunction,
    kThird,
    kFourth,
    kOne,
    kMain,
    kOut,
    kLabel,
    kNext,
    kBound
  };
  const cl_uint physical64 = 2, opencl = 2, kernel = 6, addresses = 4, global = 5, aligned = 2;
  std::vector<cl_uint> words{0x07230203, 0x00010000, 0, kBound, 0};
  auto op = [&](cl_uint code, std::initializer_list<cl_uint> operands) {
    words.push_back(static_cast<cl_uint>(operands.size() + 1) << 16 | code);
    words.insert(words.end(), operands);
  };
  op(17, {addresses});                    // OpCapability
  op(17, {kernel});                       // OpCapability
  op(14, {physical64, opencl});           // OpMemoryModel
  op(15, {kernel, kMain, 'f'});           // OpEntryPoint
  op(3, {3, 102000});                     // OpSource OpenCL C 1.2
  op(71, {kThird, 1, 3});                 // OpDecorate SpecId
  op(71, {kFourth, 1, 4});                // OpDecorate SpecId
  op(19, {kVoid});                        // OpTypeVoid
  op(21, {kInt, 32, 0});                  // OpTypeInt
  op(32, {kPointer, global, kInt});       // OpTypePointer
  op(33, {kFunction, kVoid, kPointer});   // OpTypeFunction
  op(50, {kInt, kThird, 1});              // OpSpecConstant
  op(50, {kInt, kFourth, 0});             // OpSpecConstant
  op(43, {kInt, kOne, 1});                // OpConstant
  op(54, {kVoid, kMain, 0, kFunction});   // OpFunction
  op(55, {kPointer, kOut});               // OpFunctionParameter
  op(248, {kLabel});                      // OpLabel
  op(62, {kOut, kThird, aligned, 4});     // OpStore
  op(70, {kPointer, kNext, kOut, kOne});  // OpInBoundsPtrAccessChain
  op(62, {kNext, kFourth, aligned, 4});   // OpStore
  op(253, {});                            // OpReturn
  op(56, {});                             // OpFunctionEnd
  return {reinterpret_cast<const char *>(words.data()), words.size() * sizeof words[0]};
}

static void run(const Cl &cl, cl_kernel k, int third, int fourth) {
  cl_mem out = cl.buffer(8);
  CL(clSetKernelArg(k, 0, sizeof out, &out));
  CL(clEnqueueTask(cl.queue, k, 0, nullptr, nullptr));
  size_t groups = 2, one = 1;  // more than one, as with --slice
  CL(clEnqueueNDRangeKernel(cl.queue, k, 1, nullptr, &groups, &one, 0, nullptr, nullptr));
  std::vector<int> v = cl.read_ints(out, 2);
  EXPECT(v[0] == third && v[1] == fourth);
}

static void give(cl_program p, cl_uint id, cl_int value) {
  CL(clSetProgramSpecializationConstant(p, id, sizeof value, &value));
}

int main(int argc, char **argv) {
  Cl cl;
  cl_int status;
  std::string how = argc > 1 ? argv[1] : "";
  if (how == "version") {
    char takes[256] = "";
    clGetDeviceInfo(cl.device, CL_DEVICE_IL_VERSION, sizeof takes, takes, nullptr);
    std::printf("%s\n", takes);
    return 0;
  }
  std::string il = how == "real" ? spirv() : module();
  cl_program p = clCreateProgramWithIL(cl.context, il.data(), il.size(), &status);
  if (how == "none") {
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
  // A constant that takes effect at the next build. Another program, because rusticl (Mesa 22.3.6)
  // cannot rebuild a program after its kernels have run.
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
