// SPDX-License-Identifier: Apache-2.0
//
// Device memory as PyTorch's expandable segments and JAX's allocator use it: each segment is a
// range of addresses larger than the device's memory. Physical memory of 2 MiB (one segment) and of
// 20 MiB (the others) is mapped at its end piece by piece; in each step a piece is unmapped and
// mapped at the end of another segment, or given back. A kernel computes over a whole segment,
// whose pieces also hold addresses of each other. Scratch memory comes from the default pool
// (cudaMallocAsync). The host computes the same for some words of each piece. `segments STEPS`;
// prints "step N", waits while the file "pause" exists, and finally prints a checksum.
#include <cuda.h>
#include <unistd.h>

#include <deque>
#include <memory>

#include "check.h"

#define DRIVER(call) CHECK((call) == CUDA_SUCCESS)

constexpr size_t kMiB = 1 << 20;

// One word of 512 is used.
constexpr size_t kStride = 512;

__global__ void step(unsigned *data, size_t n, const unsigned *scratch, unsigned round) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n / kStride;
       i += gridDim.x * blockDim.x) {
    unsigned &word = data[i * kStride + 2];
    word = word * 5 + scratch[i % 8 * kStride + 2] + round;
  }
}
__global__ void fill(unsigned *data, size_t n, unsigned value) {
  for (size_t i = blockIdx.x * blockDim.x + threadIdx.x; i < n / kStride;
       i += gridDim.x * blockDim.x)
    data[i * kStride + 2] = value;
}
// Follows the addresses at the beginning of each piece.
__global__ void walk(const unsigned *piece, unsigned *length) {
  for (; piece != nullptr; piece = *reinterpret_cast<unsigned *const *>(piece)) ++*length;
}

struct Piece {
  CUmemGenericAllocationHandle handle = 0;
  size_t bytes = 0;
  std::vector<unsigned> samples;  // the words at sample_place()

  explicit Piece(size_t n) : bytes(n), samples(16, 0) {
    CUmemAllocationProp prop{};
    prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    DRIVER(cuMemCreate(&handle, bytes, &prop, 0));
  }
  ~Piece() { DRIVER(cuMemRelease(handle)); }
  size_t sample_place(size_t k) const { return 2 + k * (bytes / 4 / 16) / kStride * kStride; }
};

class Segment {
 public:
  explicit Segment(size_t piece_bytes) : piece_bytes_(piece_bytes) {
    size_t free, total;
    CUDA(cudaMemGetInfo(&free, &total));
    reserved_ = (total + total / 8 + 20 * kMiB) / (20 * kMiB) * 20 * kMiB;
    DRIVER(cuMemAddressReserve(&base_, reserved_, 0, 0, 0));
  }
  ~Segment() {
    while (!pieces_.empty()) shrink();
    DRIVER(cuMemAddressFree(base_, reserved_));
  }
  void grow() {
    auto piece = std::make_unique<Piece>(piece_bytes_);
    CUdeviceptr at = end();
    append(std::move(piece));
    fill<<<8, 128>>>(reinterpret_cast<unsigned *>(at), piece_bytes_ / 4, 0);
    link();
  }
  void append(std::unique_ptr<Piece> piece) {
    CUmemAccessDesc access{{CU_MEM_LOCATION_TYPE_DEVICE, 0}, CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
    DRIVER(cuMemMap(end(), piece->bytes, 0, piece->handle, 0));
    DRIVER(cuMemSetAccess(end(), piece->bytes, &access, 1));
    pieces_.push_back(std::move(piece));
    link();
  }
  std::unique_ptr<Piece> shrink() {
    CUDA(cudaDeviceSynchronize());
    std::unique_ptr<Piece> last = std::move(pieces_.back());
    pieces_.pop_back();
    DRIVER(cuMemUnmap(end(), last->bytes));
    link();
    return last;
  }
  size_t size() const { return pieces_.size(); }

  void compute(const unsigned *scratch, unsigned value, unsigned round) {
    if (pieces_.empty()) return;
    step<<<16, 128>>>(words(), pieces_.size() * piece_bytes_ / 4, scratch, round);
    CUDA(cudaGetLastError());
    for (auto &p : pieces_)
      for (unsigned &s : p->samples) s = s * 5 + value + round;
  }
  // Words of each piece as the host has computed them, and all pieces in a row.
  unsigned check(unsigned *length) {
    unsigned sum = 0, count = 0;
    for (size_t i = 0; i < pieces_.size(); ++i)
      for (size_t k = 0; k < 16; ++k) {
        unsigned word;
        CUDA(cudaMemcpy(&word, words() + i * piece_bytes_ / 4 + pieces_[i]->sample_place(k), 4,
                        cudaMemcpyDeviceToHost));
        CHECK(word == pieces_[i]->samples[k]);
        sum = sum * 31 + word;
      }
    if (pieces_.empty()) return sum;
    CUDA(cudaMemset(length, 0, sizeof *length));
    walk<<<1, 1>>>(words(), length);
    CUDA(cudaMemcpy(&count, length, sizeof count, cudaMemcpyDeviceToHost));
    CHECK(count == pieces_.size());
    return sum;
  }

 private:
  unsigned *words() const { return reinterpret_cast<unsigned *>(base_); }
  CUdeviceptr end() const { return base_ + pieces_.size() * piece_bytes_; }
  // Each piece begins with the address of the next one.
  void link() {
    for (size_t i = 0; i < pieces_.size(); ++i) {
      CUdeviceptr next = i + 1 < pieces_.size() ? base_ + (i + 1) * piece_bytes_ : 0;
      CUDA(cudaMemcpy(reinterpret_cast<void *>(base_ + i * piece_bytes_), &next, sizeof next,
                      cudaMemcpyHostToDevice));
    }
  }

  size_t piece_bytes_, reserved_ = 0;
  CUdeviceptr base_ = 0;
  std::deque<std::unique_ptr<Piece>> pieces_;
};

int main(int argc, char **argv) {
  const int steps = argc > 1 ? std::atoi(argv[1]) : 8;
  unsigned *length, sum = 0;
  CUDA(cudaMalloc(&length, sizeof *length));
  Segment small(2 * kMiB), first(20 * kMiB), second(20 * kMiB);
  for (int i = 0; i < 3; ++i) small.grow();
  for (int i = 0; i < 2; ++i) first.grow();
  unsigned *kept;  // from one step to the next
  CUDA(cudaMallocAsync(reinterpret_cast<void **>(&kept), 3 * kMiB, 0));
  fill<<<4, 128>>>(kept, 3 * kMiB / 4, 7);
  for (int r = 0; r < steps; ++r) {
    unsigned *scratch;
    CUDA(cudaMallocAsync(reinterpret_cast<void **>(&scratch), (4 + r % 3) * kMiB, 0));
    fill<<<4, 128>>>(scratch, kMiB, 7 + r);
    for (Segment *s : {&small, &first, &second})
      s->compute(r % 2 ? kept : scratch, r % 2 ? 7 : 7 + r, r);
    CUDA(cudaFreeAsync(scratch, 0));
    if (r % 4 == 3) small.shrink();  // given back
    small.grow();
    if (first.size() > 0)
      second.append(first.shrink());
    else
      first.append(second.shrink());
    sum = sum * 31 + small.check(length) + first.check(length) * 3 + second.check(length) * 5;
    std::printf("step %d\n", r + 1);
    std::fflush(stdout);
    while (access("pause", F_OK) == 0) usleep(2000);
    for (Segment *s : {&small, &first, &second}) s->check(length);
  }
  CUDA(cudaFreeAsync(kept, 0));
  CUDA(cudaDeviceSynchronize());
  std::printf("checksum %08x\n", sum);
  return passed();
}
