// SPDX-License-Identifier: Apache-2.0
//
// An OpenCL program that works all the time and writes a part of its memory each second, for
// bench/opencl/live.
//
//   writer MIB BUFFERS PERCENT zeros|smooth|random [anew]
//
// Writes PERCENT of the buffers each second, one after the other: each with one value, or anew,
// with contents of the same kind, which compress as those before did. In between it runs a short
// kernel again and again. Every 20 ms it prints the time of CLOCK_MONOTONIC in seconds and the
// number of kernels so far.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "bench/content.h"
#include "bench/opencl/device.h"

namespace {

using ckpt::bench::Content;
using ckpt::bench::Device;
using Clock = std::chrono::steady_clock;
using Seconds = std::chrono::duration<double>;

constexpr size_t kItems = 1 << 16;
const char *const kSource =
    "kernel void work(global float *d) {\n"
    "  float v = d[get_global_id(0)];\n"
    "  for (int i = 0; i < 64; i++) v = v * 0.999f + 0.001f;\n"
    "  d[get_global_id(0)] = v;\n"
    "}\n"
    // As bench/content.h. `keep`: the bits of a smooth field; `noise`: those of each eighth value.
    "kernel void refill(global uint *d, uint seed, uint keep, uint noise, uint step) {\n"
    "  uint i = get_global_id(0), h = (i ^ seed) * 2654435761u;\n"
    "  h = (h ^ (h >> 15)) * 2246822519u;\n"
    "  h = (h ^ (h >> 13)) * 3266489917u;\n"
    "  float field = 300.0f + 40.0f * sin((float)(i >> 12) * 1e-3f + (i & 4095) * 1e-3f + seed);\n"
    "  d[i] = (as_uint(field) & keep) | (i % step == 0 ? (h ^ (h >> 16)) & noise : 0);\n"
    "}\n";

class Writer {
 public:
  Writer(size_t mib, size_t count, const std::string &kind, bool anew)
      : bytes_((mib << 20) / count), anew_(anew), random_(kind == "random") {
    Content content(kind);
    std::vector<float> host(bytes_ / sizeof(float));
    for (size_t i = 0; i < count; i++) {
      content.fill(host.data(), host.size());
      buffers_.push_back(device_.buffer(bytes_));
      CL(clEnqueueWriteBuffer(device_.queue, buffers_.back(), CL_TRUE, 0, bytes_, host.data(), 0,
                              nullptr, nullptr));
    }
    small_ = device_.buffer(kItems * sizeof(float));
    build();
  }

  void work() {
    size_t items = kItems;
    CL(clEnqueueNDRangeKernel(device_.queue, kernel_, 1, nullptr, &items, nullptr, 0, nullptr,
                              nullptr));
    CL(clFinish(device_.queue));
  }
  void write_next() { anew_ ? refill_next() : fill_next(); }

 private:
  void refill_next() {
    cl_mem buffer = buffers_[next_ % buffers_.size()];
    auto seed = static_cast<cl_uint>(next_++);
    const cl_uint smooth[] = {~0xfffu, 0xff0u, 8}, random[] = {0, ~0u, 1};
    const cl_uint *how = random_ ? random : smooth;
    CL(clSetKernelArg(refill_, 0, sizeof buffer, &buffer));
    CL(clSetKernelArg(refill_, 1, sizeof seed, &seed));
    for (cl_uint i = 0; i < 3; i++) CL(clSetKernelArg(refill_, 2 + i, sizeof how[i], &how[i]));
    size_t items = bytes_ / sizeof(cl_uint);
    CL(clEnqueueNDRangeKernel(device_.queue, refill_, 1, nullptr, &items, nullptr, 0, nullptr,
                              nullptr));
  }
  void fill_next() {
    float value = static_cast<float>(next_);
    CL(clEnqueueFillBuffer(device_.queue, buffers_[next_++ % buffers_.size()], &value, sizeof value,
                           0, bytes_, 0, nullptr, nullptr));
  }
  void build() {
    cl_int status;
    cl_program p = clCreateProgramWithSource(device_.context, 1,
                                             const_cast<const char **>(&kSource), nullptr, &status);
    CL(status);
    CL(clBuildProgram(p, 1, &device_.id, "", nullptr, nullptr));
    kernel_ = clCreateKernel(p, "work", &status);
    CL(status);
    refill_ = clCreateKernel(p, "refill", &status);
    CL(status);
    CL(clSetKernelArg(kernel_, 0, sizeof small_, &small_));
  }

  Device device_;
  size_t bytes_, next_ = 0;
  bool anew_, random_;
  std::vector<cl_mem> buffers_;
  cl_mem small_ = nullptr;
  cl_kernel kernel_ = nullptr, refill_ = nullptr;
};

}  // namespace

int main(int argc, char **argv) {
  bool anew = argc == 6 && std::string(argv[5]) == "anew";
  if (argc != 5 && !anew) {
    std::fprintf(stderr, "usage: writer MIB BUFFERS PERCENT zeros|smooth|random [anew]\n");
    return 2;
  }
  size_t count = std::strtoul(argv[2], nullptr, 10);
  double per_second = static_cast<double>(count) * std::atof(argv[3]) / 100;
  Writer writer(std::strtoul(argv[1], nullptr, 10), count, argv[4], anew);
  Clock::time_point begin = Clock::now(), print_at = begin;
  double written = 0;
  for (unsigned long kernels = 0;; kernels++) {
    writer.work();
    Clock::time_point now = Clock::now();
    for (double due = Seconds(now - begin).count() * per_second; written < due; written++)
      writer.write_next();
    if (now < print_at) continue;
    std::printf("%.3f %lu\n", Seconds(now.time_since_epoch()).count(), kernels);
    std::fflush(stdout);
    print_at = now + std::chrono::milliseconds(20);
  }
}
