// SPDX-License-Identifier: Apache-2.0
//
// Chooses the PTX of a program's code that corresponds to the code that the driver would load.
#pragma once

#include <string>

#include "fatbin/image.h"

namespace ckpt::cuda::guest {

// For devices of compute capability `sm` (90 for 9.0). An error says why the code runs whole.
Result<std::string> choose_ptx(const fatbin::Image &image, unsigned sm);

}  // namespace ckpt::cuda::guest
