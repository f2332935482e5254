// SPDX-License-Identifier: Apache-2.0
//
// Copies to, from and between arrays. Compiled twice, as copy.cc is.
#include <algorithm>
#include <vector>

#include "softcuda/runtime/boxes.h"

using namespace ckpt::softcuda::runtime;

namespace {

// The copy on the null stream ends before the call returns, any other one is asynchronous.
cudaError_t copy(const CUDA_MEMCPY3D &d, cudaStream_t s, bool wait) {
  return as_runtime(wait ? cuMemcpy3D(&d) : cuMemcpy3DAsync(&d, s));
}

void write_to_array(CUDA_MEMCPY3D &d, cudaArray_t a, size_t x, size_t y) {
  d.dstMemoryType = CU_MEMORYTYPE_ARRAY;
  d.dstArray = as_array(a);
  d.dstXInBytes = x;
  d.dstY = y;
}

void read_from_array(CUDA_MEMCPY3D &d, cudaArray_const_t a, size_t x, size_t y) {
  d.srcMemoryType = CU_MEMORYTYPE_ARRAY;
  d.srcArray = as_array(a);
  d.srcXInBytes = x;
  d.srcY = y;
}

// A range of bytes that starts at (x, y) of an array and continues in the rows below, as boxes: the
// rest of its first row, whole rows, the beginning of the last one.
struct Piece {
  size_t x, y, width, height;
};
std::vector<Piece> pieces_of(size_t row, size_t x, size_t y, size_t bytes) {
  std::vector<Piece> pieces;
  if (x > 0 || bytes < row) {
    size_t first = std::min(bytes, row - std::min(x, row));
    pieces.push_back({x, y, first, 1});
    if (first == 0) return pieces;  // x is outside of the row, which the driver reports
    bytes -= first;
    ++y;
  }
  if (size_t rows = bytes / row; rows > 0) {
    pieces.push_back({0, y, row, rows});
    y += rows;
  }
  if (bytes % row > 0) pieces.push_back({0, y, bytes % row, 1});
  return pieces;
}

cudaError_t write_range(cudaArray_t dst, size_t x, size_t y, const void *src, size_t bytes,
                        cudaStream_t s, bool wait) {
  RETURN_IF(enter());
  size_t row = row_bytes(as_array(dst));
  if (row == 0) return keep(cudaErrorInvalidResourceHandle);
  const char *from = static_cast<const char *>(src);
  for (const Piece &p : pieces_of(row, x, y, bytes)) {
    if (p.width == 0) return keep(cudaErrorInvalidValue);
    CUDA_MEMCPY3D d = rows(nullptr, 0, from, p.width, p.width, p.height);
    write_to_array(d, dst, p.x, p.y);
    RETURN_IF(copy(d, s, wait));
    from += p.width * p.height;
  }
  return cudaSuccess;
}

cudaError_t read_range(void *dst, cudaArray_const_t src, size_t x, size_t y, size_t bytes,
                       cudaStream_t s, bool wait) {
  RETURN_IF(enter());
  size_t row = row_bytes(as_array(src));
  if (row == 0) return keep(cudaErrorInvalidResourceHandle);
  char *to = static_cast<char *>(dst);
  for (const Piece &p : pieces_of(row, x, y, bytes)) {
    if (p.width == 0) return keep(cudaErrorInvalidValue);
    CUDA_MEMCPY3D d = rows(to, p.width, nullptr, 0, p.width, p.height);
    read_from_array(d, src, p.x, p.y);
    RETURN_IF(copy(d, s, wait));
    to += p.width * p.height;
  }
  return cudaSuccess;
}

cudaError_t write_rows(cudaArray_t dst, size_t x, size_t y, const void *src, size_t pitch,
                       size_t width, size_t height, cudaStream_t s, bool wait) {
  RETURN_IF(enter());
  CUDA_MEMCPY3D d = rows(nullptr, 0, src, pitch, width, height);
  write_to_array(d, dst, x, y);
  return keep(copy(d, s, wait));
}

cudaError_t read_rows(void *dst, size_t pitch, cudaArray_const_t src, size_t x, size_t y,
                      size_t width, size_t height, cudaStream_t s, bool wait) {
  RETURN_IF(enter());
  CUDA_MEMCPY3D d = rows(dst, pitch, nullptr, 0, width, height);
  read_from_array(d, src, x, y);
  return keep(copy(d, s, wait));
}

}  // namespace

CUDART_API cudaError_t cudaMemcpyToArray(cudaArray_t dst, size_t x, size_t y, const void *src,
                                         size_t n, cudaMemcpyKind) {
  return write_range(dst, x, y, src, n, nullptr, true);
}
CUDART_API cudaError_t cudaMemcpyToArrayAsync(cudaArray_t dst, size_t x, size_t y, const void *src,
                                              size_t n, cudaMemcpyKind, cudaStream_t s) {
  return write_range(dst, x, y, src, n, s, false);
}
CUDART_API cudaError_t cudaMemcpyFromArray(void *dst, cudaArray_const_t src, size_t x, size_t y,
                                           size_t n, cudaMemcpyKind) {
  return read_range(dst, src, x, y, n, nullptr, true);
}
CUDART_API cudaError_t cudaMemcpyFromArrayAsync(void *dst, cudaArray_const_t src, size_t x,
                                                size_t y, size_t n, cudaMemcpyKind,
                                                cudaStream_t s) {
  return read_range(dst, src, x, y, n, s, false);
}
CUDART_API cudaError_t cudaMemcpy2DToArray(cudaArray_t dst, size_t x, size_t y, const void *src,
                                           size_t pitch, size_t width, size_t height,
                                           cudaMemcpyKind) {
  return write_rows(dst, x, y, src, pitch, width, height, nullptr, true);
}
CUDART_API cudaError_t cudaMemcpy2DToArrayAsync(cudaArray_t dst, size_t x, size_t y,
                                                const void *src, size_t pitch, size_t width,
                                                size_t height, cudaMemcpyKind, cudaStream_t s) {
  return write_rows(dst, x, y, src, pitch, width, height, s, false);
}
CUDART_API cudaError_t cudaMemcpy2DFromArray(void *dst, size_t pitch, cudaArray_const_t src,
                                             size_t x, size_t y, size_t width, size_t height,
                                             cudaMemcpyKind) {
  return read_rows(dst, pitch, src, x, y, width, height, nullptr, true);
}
CUDART_API cudaError_t cudaMemcpy2DFromArrayAsync(void *dst, size_t pitch, cudaArray_const_t src,
                                                  size_t x, size_t y, size_t width, size_t height,
                                                  cudaMemcpyKind, cudaStream_t s) {
  return read_rows(dst, pitch, src, x, y, width, height, s, false);
}
CUDART_API cudaError_t cudaMemcpy2DArrayToArray(cudaArray_t dst, size_t dst_x, size_t dst_y,
                                                cudaArray_const_t src, size_t src_x, size_t src_y,
                                                size_t width, size_t height, cudaMemcpyKind) {
  RETURN_IF(enter());
  CUDA_MEMCPY3D d = rows(nullptr, 0, nullptr, 0, width, height);
  write_to_array(d, dst, dst_x, dst_y);
  read_from_array(d, src, src_x, src_y);
  return keep(as_runtime(cuMemcpy3D(&d)));
}
// Row by row, because the rows of the two arrays may have different lengths.
CUDART_API cudaError_t cudaMemcpyArrayToArray(cudaArray_t dst, size_t dst_x, size_t dst_y,
                                              cudaArray_const_t src, size_t src_x, size_t src_y,
                                              size_t n, cudaMemcpyKind) {
  RETURN_IF(enter());
  size_t dst_row = row_bytes(as_array(dst)), src_row = row_bytes(as_array(src));
  if (dst_row == 0 || src_row == 0) return keep(cudaErrorInvalidResourceHandle);
  if (dst_x >= dst_row || src_x >= src_row) return keep(cudaErrorInvalidValue);
  while (n > 0) {
    size_t width = std::min({n, dst_row - dst_x, src_row - src_x});
    RETURN_IF(cudaMemcpy2DArrayToArray(dst, dst_x, dst_y, src, src_x, src_y, width, 1,
                                       cudaMemcpyDeviceToDevice));
    n -= width;
    dst_y += (dst_x + width) / dst_row;
    dst_x = (dst_x + width) % dst_row;
    src_y += (src_x + width) / src_row;
    src_x = (src_x + width) % src_row;
  }
  return cudaSuccess;
}
