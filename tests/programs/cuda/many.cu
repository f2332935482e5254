// SPDX-License-Identifier: Apache-2.0
//
// many SEED SECONDS [exit|fork]: threads on every device make random calls, determined by SEED:
// they allocate, fill, launch, copy between devices and streams, free, and check all of their
// memory. It runs for SECONDS, and for as long as the file "pause" exists. With "exit", it exits
// abruptly once that file is gone; with "fork", it forks all the time.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <map>
#include <random>
#include <thread>

#include "check.h"

__global__ void add(unsigned *p, size_t n, unsigned v) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) p[i] += v;
}

struct Piece {
  size_t n;
  unsigned value;  // of every element
  int device;
};

class Worker {
 public:
  Worker(unsigned seed, int devices) : random_(seed), devices_(devices) {}

  void step() {
    int d = static_cast<int>(random_() % devices_);
    CUDA(cudaSetDevice(d));
    switch (pieces_.empty() ? 0 : random_() % 6) {
      case 0: allocate(d); break;
      case 1: grow(any()); break;
      case 2: verify(any()); break;
      case 3: release(any()); break;
      case 4: copy(any(), d); break;
      default: asynchronously(any()); break;
    }
  }
  void end() {
    while (!pieces_.empty()) release(pieces_.begin());
  }

 private:
  using It = std::map<unsigned *, Piece>::iterator;
  It any() { return std::next(pieces_.begin(), random_() % pieces_.size()); }

  void allocate(int d) {
    Piece p{1 + random_() % (random_() % 8 == 0 ? 1000000 : 5000), random_() % 1000, d};
    unsigned *at;
    if (pieces_.size() > 20) return release(any());
    CUDA(cudaMalloc(&at, p.n * 4));
    std::vector<unsigned> host(p.n, p.value);
    CUDA(cudaMemcpy(at, host.data(), p.n * 4, cudaMemcpyHostToDevice));
    pieces_[at] = p;
  }
  void grow(It it) {
    CUDA(cudaSetDevice(it->second.device));
    add<<<4, 64>>>(it->first, it->second.n, 3);
    it->second.value += 3;
  }
  void asynchronously(It it) {
    cudaStream_t a, b;
    cudaEvent_t e;
    CUDA(cudaSetDevice(it->second.device));
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking));
    CUDA(cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking));
    CUDA(cudaEventCreate(&e));
    add<<<2, 64, 0, a>>>(it->first, it->second.n, 5);
    CUDA(cudaEventRecord(e, a));
    CUDA(cudaStreamWaitEvent(b, e));
    add<<<2, 64, 0, b>>>(it->first, it->second.n, 7);
    CUDA(cudaStreamSynchronize(b));
    CUDA(cudaStreamDestroy(a));
    CUDA(cudaStreamDestroy(b));
    CUDA(cudaEventDestroy(e));
    it->second.value += 12;
  }
  void copy(It it, int d) {
    unsigned *at;
    CUDA(cudaSetDevice(it->second.device));
    CUDA(cudaDeviceSynchronize());
    CUDA(cudaSetDevice(d));
    CUDA(cudaMalloc(&at, it->second.n * 4));
    CUDA(cudaMemcpy(at, it->first, it->second.n * 4, cudaMemcpyDefault));
    pieces_[at] = {it->second.n, it->second.value, d};
  }
  void verify(It it) {
    std::vector<unsigned> host(it->second.n);
    CUDA(cudaSetDevice(it->second.device));
    CUDA(cudaMemcpy(host.data(), it->first, host.size() * 4, cudaMemcpyDeviceToHost));
    for (unsigned v : host) CHECK(v == it->second.value);
  }
  void release(It it) {
    verify(it);
    CUDA(cudaFree(it->first));
    pieces_.erase(it);
  }

  std::mt19937 random_;
  int devices_;
  std::map<unsigned *, Piece> pieces_;
};

static void fork_once() {
  if (pid_t child = fork()) {
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
    }
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 7);
  } else {
    _exit(7);
  }
}

int main(int argc, char **argv) {
  unsigned seed = argc > 1 ? std::atoi(argv[1]) : 1;
  double seconds = argc > 2 ? std::atof(argv[2]) : 1;
  std::string extra = argc > 3 ? argv[3] : "";
  int devices = 0;
  CUDA(cudaGetDeviceCount(&devices));
  std::atomic<bool> stop{false};
  std::atomic<long> steps{0};
  std::vector<std::thread> threads;
  for (unsigned t = 0; t < 3; ++t)
    threads.emplace_back([&, t] {
      Worker worker(seed * 3 + t, devices);
      while (!stop) worker.step(), ++steps;
      worker.end();
    });
  auto begin = std::chrono::steady_clock::now();
  std::puts("step 0");
  std::fflush(stdout);
  while (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() < seconds ||
         access("pause", F_OK) == 0 || extra == "exit") {
    if (extra == "fork") fork_once();
    if (extra == "exit" && steps > 20 && access("pause", F_OK) != 0) std::_Exit(3);
    usleep(1000);
  }
  stop = true;
  for (std::thread &t : threads) t.join();
  std::printf("%ld steps\n", steps.load());
  return passed();
}
