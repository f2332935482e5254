// SPDX-License-Identifier: Apache-2.0
#include "softcuda/runtime/formats.h"

namespace ckpt::softcuda::runtime {

bool format_of(const cudaChannelFormatDesc &d, CUarray_format &format, unsigned &channels) {
  channels = d.w != 0 ? 4 : d.z != 0 ? 3 : d.y != 0 ? 2 : 1;
  bool even = (d.y == 0 || d.y == d.x) && (d.z == 0 || d.z == d.x) && (d.w == 0 || d.w == d.x);
  if (!even || channels == 3) return false;
  int size = d.x == 8 ? 0 : d.x == 16 ? 1 : d.x == 32 ? 2 : 3;
  static constexpr CUarray_format kUnsigned[] = {
      CU_AD_FORMAT_UNSIGNED_INT8, CU_AD_FORMAT_UNSIGNED_INT16, CU_AD_FORMAT_UNSIGNED_INT32};
  static constexpr CUarray_format kSigned[] = {CU_AD_FORMAT_SIGNED_INT8, CU_AD_FORMAT_SIGNED_INT16,
                                               CU_AD_FORMAT_SIGNED_INT32};
  if (size > 2) return false;
  if (d.f == cudaChannelFormatKindFloat) {
    format = size == 1 ? CU_AD_FORMAT_HALF : CU_AD_FORMAT_FLOAT;
    return size > 0;
  }
  if (d.f != cudaChannelFormatKindSigned && d.f != cudaChannelFormatKindUnsigned) return false;
  format = d.f == cudaChannelFormatKindSigned ? kSigned[size] : kUnsigned[size];
  return true;
}

cudaChannelFormatDesc description_of(CUarray_format f, unsigned channels) {
  int bits = f == CU_AD_FORMAT_UNSIGNED_INT8 || f == CU_AD_FORMAT_SIGNED_INT8     ? 8
             : f == CU_AD_FORMAT_UNSIGNED_INT16 || f == CU_AD_FORMAT_SIGNED_INT16 ? 16
             : f == CU_AD_FORMAT_HALF                                             ? 16
                                                                                  : 32;
  cudaChannelFormatKind kind = f == CU_AD_FORMAT_HALF || f == CU_AD_FORMAT_FLOAT
                                   ? cudaChannelFormatKindFloat
                               : f >= CU_AD_FORMAT_SIGNED_INT8 ? cudaChannelFormatKindSigned
                                                               : cudaChannelFormatKindUnsigned;
  return {bits, channels > 1 ? bits : 0, channels > 2 ? bits : 0, channels > 3 ? bits : 0, kind};
}

}  // namespace ckpt::softcuda::runtime
