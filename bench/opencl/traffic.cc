// SPDX-License-Identifier: Apache-2.0
//
// OpenCL traffic of known shapes, for bench/opencl/run. Prints one JSON object: the seconds of the
// traffic itself (without start-up and compilation), and how many calls and bytes it had.
//
//   traffic SHAPE [COUNT]
//
//   compute    launches of a few milliseconds, with a wait after every tenth
//   calls      like hashcat: set twelve arguments and launch, with a read after every eighth launch
//   waits      like CLBlast: a wait after every small transfer and launch
//   oneway     what one launch costs the caller, in batches; waiting for them does not count
//   roundtrip  a marker and a wait for it
//   read, write, map   large blocking transfers
//   small4k    blocking reads of 4 KiB
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "bench/opencl/device.h"

namespace {

using Clock = std::chrono::steady_clock;
double since(Clock::time_point t) {
  return std::chrono::duration<double>(Clock::now() - t).count();
}

const char *const kSource = R"(
__kernel void work(__global float *d, int n, float a0, float a1, float a2, float a3, float a4,
                   float a5, float a6, float a7, float a8, float a9) {
  size_t i = get_global_id(0);
  float v = d[i];
  for (int k = 0; k < n; k++) v = v * 0.999f + a0 + a9;
  d[i] = v;
})";

struct Result {
  double seconds = 0;
  double calls = 0, bytes = 0;
};

struct Traffic : ckpt::bench::Device {
  cl_kernel kernel;
  cl_mem mem;
  static constexpr size_t kItems = 4096, kLarge = 64 << 20;

  Traffic() : kernel(build_kernel()), mem(buffer(kLarge)) {
    float zero = 0;
    CL(clEnqueueFillBuffer(queue, mem, &zero, 4, 0, kLarge, 0, nullptr, nullptr));
    CL(clSetKernelArg(kernel, 0, sizeof mem, &mem));
    arguments(0, 1);
    launch(kItems);
    finish();
  }

  cl_kernel build_kernel() const {
    cl_int status;
    const char *source = kSource;
    cl_program program = clCreateProgramWithSource(context, 1, &source, nullptr, &status);
    CL(status);
    CL(clBuildProgram(program, 1, &id, "", nullptr, nullptr));
    cl_kernel k = clCreateKernel(program, "work", &status);
    CL(status);
    return k;
  }
  void arguments(int loops, float value) const {
    CL(clSetKernelArg(kernel, 1, sizeof loops, &loops));
    for (cl_uint i = 2; i < 12; i++) CL(clSetKernelArg(kernel, i, sizeof value, &value));
  }
  void launch(size_t items) const {
    size_t local = 64;
    CL(clEnqueueNDRangeKernel(queue, kernel, 1, nullptr, &items, &local, 0, nullptr, nullptr));
  }
  void finish() const { CL(clFinish(queue)); }
  void read(size_t bytes, void *to) const {
    CL(clEnqueueReadBuffer(queue, mem, CL_TRUE, 0, bytes, to, 0, nullptr, nullptr));
  }
  void write(size_t bytes, const void *from) const {
    CL(clEnqueueWriteBuffer(queue, mem, CL_TRUE, 0, bytes, from, 0, nullptr, nullptr));
  }
};

Result timed(int count, double calls_each, double bytes_each, const std::function<void(int)> &f) {
  auto begin = Clock::now();
  for (int i = 0; i < count; i++) f(i);
  return {since(begin), calls_each * count, bytes_each * count};
}

Result compute(const Traffic &t, int n) {
  t.arguments(1000, 1);
  return timed(n, 1.1, 0, [&](int i) {
    t.launch(Traffic::kItems);
    if (i % 10 == 9) t.finish();
  });
}

Result calls(const Traffic &t, int n) {
  std::vector<char> host(1024);
  return timed(n, 12.125, 0, [&](int i) {
    t.arguments(450, static_cast<float>(i));
    t.launch(Traffic::kItems);
    if (i % 8 == 7) t.read(host.size(), host.data());
  });
}

Result waits(const Traffic &t, int n) {
  std::vector<char> host(4096);
  t.arguments(1, 1);
  return timed(n, 4, 2.0 * host.size(), [&](int) {
    t.write(host.size(), host.data());
    t.launch(64);
    t.finish();
    t.read(host.size(), host.data());
  });
}

// A batch fits any queue, so that no launch waits for room.
Result oneway(const Traffic &t, int n) {
  constexpr int kBatch = 200;
  Result r;
  t.arguments(1, 1);
  for (int i = 0; i < n; i += kBatch) {
    Result one = timed(kBatch, 1, 0, [&](int) { t.launch(64); });
    r.seconds += one.seconds;
    r.calls += one.calls;
    t.finish();
  }
  return r;
}

Result roundtrip(const Traffic &t, int n) {
  return timed(n, 1, 0, [&](int) {
    cl_event e;
    CL(clEnqueueMarkerWithWaitList(t.queue, 0, nullptr, &e));
    CL(clWaitForEvents(1, &e));
    CL(clReleaseEvent(e));
  });
}

Result read(const Traffic &t, int n) {
  std::vector<char> host(Traffic::kLarge);
  t.read(host.size(), host.data());
  return timed(n, 1, Traffic::kLarge, [&](int) { t.read(host.size(), host.data()); });
}

Result write(const Traffic &t, int n) {
  std::vector<char> host(Traffic::kLarge, 1);
  t.write(host.size(), host.data());
  return timed(n, 1, Traffic::kLarge, [&](int) { t.write(host.size(), host.data()); });
}

// Maps for reading and writing, touches every page and unmaps.
Result map(const Traffic &t, int n) {
  return timed(n, 2, 2.0 * Traffic::kLarge, [&](int) {
    cl_int status;
    auto *p =
        static_cast<char *>(clEnqueueMapBuffer(t.queue, t.mem, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE,
                                               0, Traffic::kLarge, 0, nullptr, nullptr, &status));
    CL(status);
    for (size_t i = 0; i < Traffic::kLarge; i += 4096) p[i]++;
    CL(clEnqueueUnmapMemObject(t.queue, t.mem, p, 0, nullptr, nullptr));
    t.finish();
  });
}

Result small(const Traffic &t, int n) {
  std::vector<char> host(4096);
  return timed(n, 1, 4096, [&](int) { t.read(host.size(), host.data()); });
}

struct Shape {
  Result (*run)(const Traffic &, int);
  int count;
};

const std::map<std::string, Shape> kShapes{
    {"compute", {compute, 60}},
    {"calls", {calls, 2000}},
    {"waits", {waits, 15000}},
    {"oneway", {oneway, 40000}},
    {"roundtrip", {roundtrip, 20000}},
    {"read", {read, 30}},
    {"write", {write, 30}},
    {"map", {map, 10}},
    {"small4k", {small, 20000}},
};

}  // namespace

int main(int argc, char **argv) {
  auto shape = kShapes.find(argc > 1 ? argv[1] : "");
  if (shape == kShapes.end()) {
    std::fprintf(stderr, "usage: traffic SHAPE [COUNT], SHAPE one of");
    for (const auto &[name, s] : kShapes) std::fprintf(stderr, " %s", name.c_str());
    std::fprintf(stderr, "\n");
    return 2;
  }
  Traffic t;
  Result r = shape->second.run(t, argc > 2 ? std::atoi(argv[2]) : shape->second.count);
  std::printf("{\"shape\": \"%s\", \"seconds\": %.6f, \"calls\": %.0f, \"bytes\": %.0f}\n", argv[1],
              r.seconds, r.calls, r.bytes);
  return 0;
}
