// SPDX-License-Identifier: Apache-2.0
//
// An OpenCL program that holds device memory and waits, for bench/opencl/images.
//
//   holder MIB BUFFERS zeros|smooth|random FILE
//
// Says READY, and AGAIN when FILE has appeared and it has written to the last buffer and read
// there.
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace {

#define CL(call)                                                                  \
  do {                                                                            \
    if (cl_int status_ = (call); status_ != CL_SUCCESS) {                         \
      std::fprintf(stderr, "holder: %s: OpenCL error %d\n", #call, (int)status_); \
      std::exit(1);                                                               \
    }                                                                             \
  } while (0)

void say(const char *word) {
  std::puts(word);
  std::fflush(stdout);
}

// The next numbers of the whole; smooth ones have some noise in their lower bits, as a
// simulation's.
class Content {
 public:
  explicit Content(const std::string &kind) : kind_(kind) {}
  void fill(std::vector<float> &to) {
    if (kind_ == "zeros") return;
    for (float &f : to) f = kind_ == "smooth" ? smooth() : random();
  }

 private:
  float random() {
    auto bits = static_cast<cl_uint>(rng_());
    float f;
    std::memcpy(&f, &bits, sizeof f);
    return f;
  }
  float smooth() {
    size_t i = at_++;
    if (i % 8 == 0) {
      auto row = static_cast<float>(i >> 12), column = static_cast<float>((i & 4095) >> 3);
      value_ = 300.0f + 40.0f * std::sin(row * 1e-3f + column * 1e-2f);
    }
    cl_uint bits;
    std::memcpy(&bits, &value_, sizeof bits);
    bits = (bits & ~0xfffu) | (i % 8 == 0 ? static_cast<cl_uint>(rng_()) & 0xff0u : 0u);
    float f;
    std::memcpy(&f, &bits, sizeof f);
    return f;
  }

  std::string kind_;
  std::mt19937 rng_{2};
  size_t at_ = 0;
  float value_ = 0;
};

}  // namespace

int main(int argc, char **argv) {
  if (argc != 5) return std::fprintf(stderr, "usage: holder MIB BUFFERS KIND FILE\n"), 2;
  size_t buffers = std::strtoul(argv[2], nullptr, 10);
  size_t floats = (std::strtoul(argv[1], nullptr, 10) << 18) / buffers;
  cl_platform_id platform;
  cl_device_id device;
  cl_int status;
  CL(clGetPlatformIDs(1, &platform, nullptr));
  CL(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 1, &device, nullptr));
  cl_context context = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &status);
  CL(status);
  cl_command_queue queue = clCreateCommandQueue(context, device, 0, &status);
  CL(status);
  Content content(argv[3]);
  std::vector<float> host(floats);
  cl_mem last = nullptr;
  for (size_t i = 0; i < buffers; i++) {
    content.fill(host);
    last = clCreateBuffer(context, CL_MEM_READ_WRITE, floats * sizeof(float), nullptr, &status);
    CL(status);
    CL(clEnqueueWriteBuffer(queue, last, CL_TRUE, 0, floats * sizeof(float), host.data(), 0,
                            nullptr, nullptr));
  }
  CL(clFinish(queue));
  host = {};
  say("READY");
  while (::access(argv[4], F_OK) != 0) ::usleep(500);
  float word = 1;
  CL(clEnqueueFillBuffer(queue, last, &word, sizeof word, 0, floats * sizeof(float), 0, nullptr,
                         nullptr));
  CL(clEnqueueReadBuffer(queue, last, CL_TRUE, 0, sizeof word, &word, 0, nullptr, nullptr));
  say("AGAIN");
  ::pause();
}
