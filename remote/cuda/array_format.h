// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "remote/cuda/handles.h"

namespace ckpt::remote::cuda {

// Of one channel; 0: the format is not carried to other nodes (compressed blocks, planes of video).
constexpr u64 channel_bytes(CUarray_format f) {
  switch (f) {
    case CU_AD_FORMAT_UNSIGNED_INT8:
    case CU_AD_FORMAT_SIGNED_INT8: return 1;
    case CU_AD_FORMAT_UNSIGNED_INT16:
    case CU_AD_FORMAT_SIGNED_INT16:
    case CU_AD_FORMAT_HALF: return 2;
    case CU_AD_FORMAT_UNSIGNED_INT32:
    case CU_AD_FORMAT_SIGNED_INT32:
    case CU_AD_FORMAT_FLOAT: return 4;
    default: return 0;
  }
}

}  // namespace ckpt::remote::cuda
