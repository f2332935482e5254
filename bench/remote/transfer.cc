// SPDX-License-Identifier: Apache-2.0
//
// Writes to a device and reads from it, for bench/remote/link. Prints the GB/s of both as JSON.
//
//   transfer CONTENT MIB
//
// CONTENT is one of bench/content.h, or "field": 32-bit floating-point numbers of a smooth
// function.
#include <chrono>
#include <cmath>
#include <string>
#include <vector>

#include "bench/content.h"
#include "bench/opencl/device.h"

namespace {

void fill_with_field(std::vector<float> &all) {
  for (size_t i = 0; i < all.size(); i++) {
    size_t row = i / 1024, column = i % 1024;
    all[i] =
        std::sin(static_cast<float>(column) * 0.01f) * std::cos(static_cast<float>(row) * 0.003f);
  }
}

template <class F>
double seconds(F f) {
  auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace

int main(int argc, char **argv) {
  if (argc != 3) return 2;
  size_t bytes = std::stoul(argv[2]) << 20;
  std::vector<float> host(bytes / sizeof(float));
  if (std::string(argv[1]) == "field")
    fill_with_field(host);
  else
    ckpt::bench::Content(argv[1]).fill(host.data(), host.size());
  ckpt::bench::Device d;
  cl_mem m = d.buffer(bytes);
  double write = seconds([&] {
    CL(clEnqueueWriteBuffer(d.queue, m, CL_TRUE, 0, bytes, host.data(), 0, nullptr, nullptr));
    CL(clFinish(d.queue));
  });
  double read = seconds([&] {
    CL(clEnqueueReadBuffer(d.queue, m, CL_TRUE, 0, bytes, host.data(), 0, nullptr, nullptr));
  });
  std::printf("{\"write_gb_s\": %.4f, \"read_gb_s\": %.4f}\n", bytes / write / 1e9,
              bytes / read / 1e9);
}
