// SPDX-License-Identifier: Apache-2.0
//
// A program that uses all devices that it sees, and that a test moves. Each device has memory,
// a stream, an event, physical memory that is mapped, and variables of its own. In each step the
// devices also pass values around. The program checks everything against the same steps on the
// host.
//
//   remote_devices [STEPS]   prints "step N" after each step; makes as many as the file "steps"
//                            says, or all of them
#include <cuda.h>

#include <algorithm>

#include "wanted_steps.h"

constexpr int kWords = 1 << 14, kThreads = 128;
constexpr size_t kMapped = 2 << 20;

#ifdef VARIABLES
__device__ unsigned rounds = 5;
__constant__ unsigned factor = 3;
#define ROUNDS rounds++
#define FACTOR factor
#else
#define ROUNDS 0u
#define FACTOR 3u
#endif

__global__ void change(unsigned *words, const unsigned *mapped, unsigned device) {
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  words[i] = words[i] * FACTOR + mapped[i % 64] + device;
}
__global__ void count(unsigned *mapped) {
  mapped[0] += ROUNDS + 1;
  mapped[63] = mapped[63] * 5 + mapped[0];
}

#define OK(call) CHECK((call) == CUDA_SUCCESS)

struct Device {
  int number = 0;
  unsigned *words = nullptr, *mapped = nullptr;
  CUmemGenericAllocationHandle handle = 0;
  cudaStream_t stream;
  cudaEvent_t event;
  unsigned factor = 3, rounds = 5;
  std::vector<unsigned> host = std::vector<unsigned>(kWords), small = std::vector<unsigned>(64);

  void begin(int n) {
    number = n;
    CUDA(cudaSetDevice(n));
    CUDA(cudaMalloc(&words, kWords * sizeof *words));
    CUDA(cudaStreamCreate(&stream));
    CUDA(cudaEventCreate(&event));
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {n}};
    CUdeviceptr p = 0;
    OK(cuMemAddressReserve(&p, kMapped, 0, 0, 0));
    OK(cuMemCreate(&handle, kMapped, &prop, 0));
    OK(cuMemMap(p, kMapped, 0, handle, 0));
    CUmemAccessDesc access{prop.location, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    OK(cuMemSetAccess(p, kMapped, &access, 1));
    mapped = reinterpret_cast<unsigned *>(p);
    for (int i = 0; i < 64; i++) small[i] = i * (n + 1);
    for (int i = 0; i < kWords; i++) host[i] = i + n;
    CUDA(cudaMemcpy(mapped, small.data(), small.size() * 4, cudaMemcpyHostToDevice));
    CUDA(cudaMemcpy(words, host.data(), host.size() * 4, cudaMemcpyHostToDevice));
#ifdef VARIABLES
    factor = n + 3;  // each device has a value of its own
    CUDA(cudaMemcpyToSymbol(::factor, &factor, sizeof factor));
#endif
  }
  void step() {
    CUDA(cudaSetDevice(number));
    change<<<kWords / kThreads, kThreads, 0, stream>>>(words, mapped, number);
    count<<<1, 1, 0, stream>>>(mapped);
    CUDA(cudaEventRecord(event, stream));
    for (int i = 0; i < kWords; i++) host[i] = host[i] * factor + small[i % 64] + number;
#ifdef VARIABLES
    small[0] += rounds++;
#endif
    small[0] += 1;
    small[63] = small[63] * 5 + small[0];
  }
  // The first words go to the next device.
  void pass_on(Device &next) {
    constexpr int n = 1000;
    CUDA(cudaMemcpyPeer(next.words, next.number, words + kWords / 2, number, n * sizeof *words));
    std::copy_n(host.begin() + kWords / 2, n, next.host.begin());
  }
  void check() {
    std::vector<unsigned> found(kWords), few(64);
    CUDA(cudaSetDevice(number));
    CUDA(cudaMemcpy(found.data(), words, kWords * 4, cudaMemcpyDeviceToHost));
    CHECK(found == host);
    CUDA(cudaMemcpy(few.data(), mapped, 64 * 4, cudaMemcpyDeviceToHost));
    CHECK(few == small);
    cudaPointerAttributes attributes;
    CUDA(cudaPointerGetAttributes(&attributes, words));
    CHECK(attributes.device == number);
#ifdef VARIABLES
    unsigned now = 0;
    CUDA(cudaMemcpyFromSymbol(&now, ::rounds, sizeof now));
    CHECK(now == rounds);
#endif
  }
};

int main(int argc, char **argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 4;
  std::vector<Device> devices(devices_seen());
  std::printf("%zu devices\n", devices.size());
  for (size_t i = 0; i < devices.size(); i++) devices[i].begin(static_cast<int>(i));
  for (int r = 0; r < steps; r++) {
    for (Device &d : devices) d.step();
    for (Device &d : devices) CUDA(cudaEventSynchronize(d.event));
    for (size_t i = 0; i < devices.size(); i++)
      devices[i].pass_on(devices[(i + 1) % devices.size()]);
    wait_until_wanted(r + 1);
    for (Device &d : devices) d.check();
  }
  return passed();
}
