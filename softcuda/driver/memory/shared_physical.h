// SPDX-License-Identifier: Apache-2.0
//
// Physical memory shared between processes by descriptors of files: cuMemExportToShareableHandle.
//
// Physical memory is a file in memory, so its descriptor is the shareable handle. The name of the
// file tells which device the memory is on.
#pragma once

#include <string>

namespace ckpt::softcuda::driver {

std::string memory_file_name(int device);

}  // namespace ckpt::softcuda::driver
