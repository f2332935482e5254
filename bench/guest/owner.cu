// SPDX-License-Identifier: Apache-2.0
//
// The owner's program: owner FPS FRAME_MS SECONDS. Draws a frame at each 1/FPS by a kernel that takes
// FRAME_MS on a device without other work, and prints how many frames a second it reached. A frame
// that is late appears at the next 1/FPS, as on a display.
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>

#include <cuda_runtime.h>

using Clock = std::chrono::steady_clock;

__global__ void frame(unsigned *out, int rounds) {
  unsigned x = threadIdx.x + 1;
  for (int i = 0; i < rounds; ++i) x = x * 1664525u + 1013904223u + (x >> 7);
  out[threadIdx.x] = x;
}

static double draw_ms(unsigned *out, int rounds) {
  Clock::time_point begin = Clock::now();
  frame<<<1, 32>>>(out, rounds);
  cudaDeviceSynchronize();
  return std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
}

int main(int argc, char **argv) {
  if (argc != 4) return 2;
  const double period = 1 / std::atof(argv[1]), frame_ms = std::atof(argv[2]), seconds = std::atof(argv[3]);
  unsigned *out;
  if (cudaMalloc(&out, 128) != cudaSuccess) return 1;
  draw_ms(out, 1);
  double empty = draw_ms(out, 1), full = draw_ms(out, 20000);
  const int rounds = static_cast<int>(20000 * frame_ms / (full - empty));
  std::puts("ready");
  std::fflush(stdout);
  std::getchar();  // the guest runs
  Clock::time_point begin = Clock::now();
  int frames = 0;
  for (;;) {
    draw_ms(out, rounds);
    double now = std::chrono::duration<double>(Clock::now() - begin).count();
    if (now > seconds) break;
    ++frames;
    std::this_thread::sleep_until(
        begin + std::chrono::duration_cast<Clock::duration>(
                    std::chrono::duration<double>(std::ceil(now / period) * period)));
  }
  std::printf("fps %.2f\n", frames / seconds);
  return 0;
}
