// SPDX-License-Identifier: Apache-2.0
//
// owner.cu for OpenCL: owner FPS FRAME_MS SECONDS.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>

#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>

namespace {

using Clock = std::chrono::steady_clock;

constexpr const char *kSource = R"(
__kernel void frame(__global uint *out, int rounds) {
  uint x = get_local_id(0) + 1;
  for (int i = 0; i < rounds; i++) x = x * 1664525u + 1013904223u + (x >> 7);
  out[get_local_id(0)] = x;
}
)";

class Screen {
 public:
  Screen() {
    cl_platform_id platform;
    if (clGetPlatformIDs(1, &platform, nullptr) != CL_SUCCESS ||
        clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device_, nullptr) != CL_SUCCESS)
      std::exit(1);
    cl_context context = clCreateContext(nullptr, 1, &device_, nullptr, nullptr, nullptr);
    queue_ = clCreateCommandQueue(context, device_, 0, nullptr);
    const char *source = kSource;
    cl_program program = clCreateProgramWithSource(context, 1, &source, nullptr, nullptr);
    if (clBuildProgram(program, 1, &device_, "", nullptr, nullptr) != CL_SUCCESS) std::exit(1);
    kernel_ = clCreateKernel(program, "frame", nullptr);
    out_ = clCreateBuffer(context, CL_MEM_READ_WRITE, kItems * sizeof(cl_uint), nullptr, nullptr);
    clSetKernelArg(kernel_, 0, sizeof out_, &out_);
  }

  double draw_ms(int rounds) {
    Clock::time_point begin = Clock::now();
    clSetKernelArg(kernel_, 1, sizeof rounds, &rounds);
    clEnqueueNDRangeKernel(queue_, kernel_, 1, nullptr, &kItems, &kItems, 0, nullptr, nullptr);
    clFinish(queue_);
    return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  }

 private:
  static constexpr size_t kItems = 32;
  cl_device_id device_ = nullptr;
  cl_command_queue queue_ = nullptr;
  cl_kernel kernel_ = nullptr;
  cl_mem out_ = nullptr;
};

}  // namespace

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  const double period = 1 / std::atof(argv[1]), frame_ms = std::atof(argv[2]),
               seconds = std::atof(argv[3]);
  constexpr int kRounds = 100000;
  Screen screen;
  screen.draw_ms(1);
  double empty = screen.draw_ms(1), full = screen.draw_ms(kRounds);
  const int rounds = static_cast<int>(kRounds * frame_ms / (full - empty));
  std::puts("ready");
  std::fflush(stdout);
  std::getchar();  // the guest runs
  Clock::time_point begin = Clock::now();
  int frames = 0;
  for (;;) {
    screen.draw_ms(rounds);
    double now = std::chrono::duration<double>(Clock::now() - begin).count();
    if (now > seconds) break;
    ++frames;
    auto next = std::chrono::duration<double>(std::ceil(now / period) * period);
    std::this_thread::sleep_until(begin + std::chrono::duration_cast<Clock::duration>(next));
  }
  std::printf("fps %.2f\n", frames / seconds);
  return 0;
}
