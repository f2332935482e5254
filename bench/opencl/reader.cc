// SPDX-License-Identifier: Apache-2.0
//
// An OpenCL program that runs a kernel on one of its buffers after a restore, for
// bench/opencl/lazy.
//
//   reader MIB BUFFERS zeros|smooth|random
//
// Fills its buffers, prints "filled" and waits for the file `go` in its folder. Then it prints
//
//   on TIME       when it has seen the file: it was restored, and has gone on
//   kernel TIME   when a kernel has summed up the buffer in the middle
//   right|wrong   once the file `check` is there, whether all bytes are what they were
//
// TIME is that of CLOCK_REALTIME in seconds.
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "bench/content.h"
#include "bench/opencl/device.h"

namespace {

using ckpt::bench::Content;
using ckpt::bench::Device;

const char *const kSource =
    "kernel void sums(global const uint *d, global uint *out, uint each) {\n"
    "  uint from = get_global_id(0) * each, sum = 0;\n"
    "  for (uint i = from; i < from + each; i++) sum = sum * 31 + d[i];\n"
    "  out[get_global_id(0)] = sum;\n"
    "}\n";
constexpr size_t kItems = 1024;

double now() {
  using Seconds = std::chrono::duration<double>;
  return Seconds(std::chrono::system_clock::now().time_since_epoch()).count();
}

void wait_for(const char *file) {
  while (::access(file, F_OK) != 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

class Reader {
 public:
  Reader(size_t mib, size_t count, const std::string &kind) : bytes_((mib << 20) / count) {
    Content content(kind);
    std::vector<float> host(bytes_ / sizeof(float));
    for (size_t i = 0; i < count; i++) {
      content.fill(host.data(), host.size());
      buffers_.push_back(device_.buffer(bytes_));
      CL(clEnqueueWriteBuffer(device_.queue, buffers_.back(), CL_TRUE, 0, bytes_, host.data(), 0,
                              nullptr, nullptr));
    }
    out_ = device_.buffer(kItems * sizeof(std::uint32_t));
    cl_int status;
    const char *source = kSource;
    cl_program program = clCreateProgramWithSource(device_.context, 1, &source, nullptr, &status);
    CL(status);
    CL(clBuildProgram(program, 1, &device_.id, "", nullptr, nullptr));
    kernel_ = clCreateKernel(program, "sums", &status);
    CL(status);
  }

  // What a kernel finds in a buffer.
  std::vector<std::uint32_t> sums(size_t buffer) const {
    cl_uint each = static_cast<cl_uint>(bytes_ / sizeof(std::uint32_t) / kItems);
    CL(clSetKernelArg(kernel_, 0, sizeof(cl_mem), &buffers_[buffer]));
    CL(clSetKernelArg(kernel_, 1, sizeof out_, &out_));
    CL(clSetKernelArg(kernel_, 2, sizeof each, &each));
    CL(clEnqueueNDRangeKernel(device_.queue, kernel_, 1, nullptr, &kItems, nullptr, 0, nullptr,
                              nullptr));
    std::vector<std::uint32_t> found(kItems);
    CL(clEnqueueReadBuffer(device_.queue, out_, CL_TRUE, 0, kItems * sizeof found[0], found.data(),
                           0, nullptr, nullptr));
    return found;
  }
  std::vector<std::vector<std::uint32_t>> all() const {
    std::vector<std::vector<std::uint32_t>> found;
    for (size_t i = 0; i < buffers_.size(); i++) found.push_back(sums(i));
    return found;
  }

 private:
  Device device_;
  size_t bytes_;
  std::vector<cl_mem> buffers_;
  cl_mem out_ = nullptr;
  cl_kernel kernel_ = nullptr;
};

}  // namespace

int main(int argc, char **argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: reader MIB BUFFERS zeros|smooth|random\n");
    return 2;
  }
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  size_t count = std::strtoul(argv[2], nullptr, 10);
  Reader reader(std::strtoul(argv[1], nullptr, 10), count, argv[3]);
  auto before = reader.all();
  std::puts("filled");
  wait_for("go");
  std::printf("on %.6f\n", now());
  bool same = reader.sums(count / 2) == before[count / 2];
  std::printf("kernel %.6f\n", now());
  wait_for("check");
  std::puts(same && reader.all() == before ? "right" : "wrong");
  return 0;
}
