// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ckpt::remote::cuda {

// A file of the program (its executable, a library) with device code for which there is no PTX: the
// CUDA runtime loads the code with its first kernel. "": there is none. Each file is read once.
std::string file_without_ptx();

}  // namespace ckpt::remote::cuda
