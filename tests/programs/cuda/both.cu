// SPDX-License-Identifier: Apache-2.0
//
// A program that uses OpenCL and CUDA: each step uses both. Prints "step N", waits while the file
// "pause" exists, and finally prints the results of both.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <unistd.h>

#include "check.h"

static const char *kSource =
    "kernel void turn(global uint *p, uint add) { p[get_global_id(0)] = p[get_global_id(0)] * 3 + add; }";

__global__ void turn(unsigned *p, unsigned add) { p[threadIdx.x] = p[threadIdx.x] * 5 + add; }

int main() {
  constexpr unsigned kN = 256, kSteps = 6;
  cl_int e = 0;
  cl_platform_id platform;
  cl_device_id device;
  CHECK(clGetPlatformIDs(1, &platform, nullptr) == CL_SUCCESS);
  CHECK(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr) == CL_SUCCESS);
  cl_context context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &e);
  cl_command_queue queue = clCreateCommandQueue(context, device, 0, &e);
  cl_program program = clCreateProgramWithSource(context, 1, &kSource, nullptr, &e);
  CHECK(clBuildProgram(program, 1, &device, "", nullptr, nullptr) == CL_SUCCESS);
  cl_kernel kernel = clCreateKernel(program, "turn", &e);
  std::vector<unsigned> host(kN, 1);
  cl_mem mem = clCreateBuffer(context, CL_MEM_COPY_HOST_PTR, kN * 4, host.data(), &e);
  CHECK(e == CL_SUCCESS);
  unsigned *p;
  CUDA(cudaMalloc(&p, kN * 4));
  CUDA(cudaMemcpy(p, host.data(), kN * 4, cudaMemcpyHostToDevice));
  for (unsigned r = 0; r < kSteps; ++r) {
    size_t n = kN;
    unsigned from_cuda = 0, from_cl = 0;
    CUDA(cudaMemcpy(&from_cuda, p + r, 4, cudaMemcpyDeviceToHost));
    CHECK(clEnqueueReadBuffer(queue, mem, CL_TRUE, r * 4, 4, &from_cl, 0, nullptr, nullptr) == CL_SUCCESS);
    clSetKernelArg(kernel, 0, sizeof mem, &mem);
    clSetKernelArg(kernel, 1, sizeof from_cuda, &from_cuda);
    CHECK(clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &n, nullptr, 0, nullptr, nullptr) == CL_SUCCESS);
    CHECK(clFinish(queue) == CL_SUCCESS);
    turn<<<1, kN>>>(p, from_cl);
    CUDA(cudaDeviceSynchronize());
    std::printf("step %u\n", r + 1);
    std::fflush(stdout);
    while (access("pause", F_OK) == 0) usleep(2000);
  }
  unsigned a = 0, b = 0;
  CUDA(cudaMemcpy(&a, p, 4, cudaMemcpyDeviceToHost));
  CHECK(clEnqueueReadBuffer(queue, mem, CL_TRUE, 0, 4, &b, 0, nullptr, nullptr) == CL_SUCCESS);
  std::printf("cuda %08x opencl %08x\n", a, b);
  return passed();
}
