// SPDX-License-Identifier: Apache-2.0
//
// Matrix products with the tensor core instructions of sm_80, against the same sums on the host.
#include <mma.h>

#include "check.h"

using namespace nvcuda;

template <class A, class B, class C, int M, int N, int K, class LayoutA, class LayoutB, class Storage>
__global__ void product(const Storage *a, const Storage *b, C *c, int lda, int ldb, wmma::layout_t layout) {
  wmma::fragment<wmma::matrix_a, M, N, K, A, LayoutA> fa;
  wmma::fragment<wmma::matrix_b, M, N, K, B, LayoutB> fb;
  wmma::fragment<wmma::accumulator, M, N, K, C> fc;
  int ldc = layout == wmma::mem_row_major ? N : M;
  wmma::load_matrix_sync(fc, c, ldc, layout);
  wmma::load_matrix_sync(fa, a, lda);
  wmma::load_matrix_sync(fb, b, ldb);
  wmma::mma_sync(fc, fa, fb, fc);
  for (int i = 0; i < fc.num_elements; ++i) fc.x[i] = fc.x[i] + fc.x[i];
  wmma::store_matrix_sync(c, fc, ldc, layout);
}

// Small integers are exact in every type.
static double element(int i) { return i * 7 % 11 - 5; }

template <class A, class C, int M, int N, int K, class LayoutA, class LayoutB, class Storage = A>
static void check(wmma::layout_t layout) {
  constexpr bool row_a = std::is_same_v<LayoutA, wmma::row_major>, row_b = std::is_same_v<LayoutB, wmma::row_major>;
  Storage *a, *b;
  C *c;
  CUDA(cudaMallocManaged(&a, M * K * sizeof *a));
  CUDA(cudaMallocManaged(&b, K * N * sizeof *b));
  CUDA(cudaMallocManaged(&c, M * N * sizeof *c));
  for (int i = 0; i < M * K; ++i) a[i] = static_cast<Storage>(static_cast<float>(element(i)));
  for (int i = 0; i < K * N; ++i) b[i] = static_cast<Storage>(static_cast<float>(element(3 * i + 1)));
  for (int i = 0; i < M * N; ++i) c[i] = static_cast<C>(static_cast<float>(element(5 * i + 2)));
  product<A, A, C, M, N, K, LayoutA, LayoutB>
      <<<1, 32>>>(a, b, c, row_a ? K : M, row_b ? N : K, layout);
  CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < M; ++i)
    for (int j = 0; j < N; ++j) {
      int at = layout == wmma::mem_row_major ? i * N + j : j * M + i;
      double sum = element(5 * at + 2);
      for (int k = 0; k < K; ++k)
        sum += element(row_a ? i * K + k : k * M + i) * element(3 * (row_b ? k * N + j : j * K + k) + 1);
      CHECK(static_cast<double>(static_cast<float>(c[at])) == 2 * sum);
    }
}

// The documented layout of mma.m16n8k16, with ldmatrix for both sources.
__global__ void by_hand(const half *a, const half *b, float *d) {
  __shared__ alignas(16) half sa[16 * 16], sb[16 * 8];
  for (int i = threadIdx.x; i < 16 * 16; i += 32) sa[i] = a[i];
  for (int i = threadIdx.x; i < 16 * 8; i += 32) sb[i] = b[i];
  __syncwarp();
  unsigned lane = threadIdx.x, ra[4], rb[2];
  // 8 by 8 matrices in the order top left, bottom left, top right, bottom right; the load
  // transposes b.
  unsigned at_a = __cvta_generic_to_shared(sa + (lane % 16) * 16 + lane / 16 * 8);
  unsigned at_b = __cvta_generic_to_shared(sb + (lane % 16) * 8);
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3])
               : "r"(at_a));
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(rb[0]), "=r"(rb[1])
               : "r"(at_b));
  float c[4] = {};
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
      "{%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
  for (int i = 0; i < 4; ++i) d[(lane / 4 + 8 * (i / 2)) * 8 + lane % 4 * 2 + i % 2] = c[i];
}

static void documented_layout() {
  half *a, *b;
  float *d;
  CUDA(cudaMallocManaged(&a, 256 * sizeof *a));
  CUDA(cudaMallocManaged(&b, 128 * sizeof *b));
  CUDA(cudaMallocManaged(&d, 128 * sizeof *d));
  for (int i = 0; i < 256; ++i) a[i] = static_cast<half>(static_cast<float>(element(i)));
  for (int i = 0; i < 128; ++i) b[i] = static_cast<half>(static_cast<float>(element(3 * i + 1)));
  by_hand<<<1, 32>>>(a, b, d);
  CUDA(cudaDeviceSynchronize());
  for (int i = 0; i < 16; ++i)
    for (int j = 0; j < 8; ++j) {
      double sum = 0;
      for (int k = 0; k < 16; ++k) sum += element(i * 16 + k) * element(3 * (k * 8 + j) + 1);
      CHECK(d[i * 8 + j] == sum);
    }
}

int main() {
  using Row = wmma::row_major;
  using Column = wmma::col_major;
  for (wmma::layout_t layout : {wmma::mem_row_major, wmma::mem_col_major}) {
    check<half, float, 16, 16, 16, Row, Column>(layout);
    check<half, half, 32, 8, 16, Column, Row>(layout);
    check<__nv_bfloat16, float, 16, 16, 16, Row, Row>(layout);
    check<wmma::precision::tf32, float, 16, 16, 8, Row, Column, float>(layout);
    check<signed char, int, 16, 16, 16, Row, Column>(layout);
    check<signed char, int, 8, 32, 16, Column, Row>(layout);
    check<double, double, 8, 8, 4, Row, Column>(layout);
  }
  documented_layout();
  return passed();
}
