// SPDX-License-Identifier: Apache-2.0
//
// UUIDs of devices as nvidia-smi writes them: GPU-2b0c6a3e-….
#pragma once

// As in checkpoint_entries.h.
#ifndef __CUDA_API_VERSION_INTERNAL
#define __CUDA_API_VERSION_INTERNAL 1
#endif
#include <cuda.h>

#include <string>
#include <string_view>

#include "common/base/result.h"

namespace ckpt::cuda {

std::string uuid_text(const CUuuid &uuid);
// Also without "GPU-" and without hyphens.
Result<CUuuid> parse_uuid(std::string_view text);

}  // namespace ckpt::cuda
