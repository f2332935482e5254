// SPDX-License-Identifier: Apache-2.0
//
// Functions of libcudadevrt that kernels call and that the software device has as PTX, because the
// library holds only cubins: the barrier of the grid, as numba's grid.sync() calls it. CUDA C++
// (cooperative_groups) has its own code for the barrier.
#pragma once

#include <string>
#include <vector>

namespace ckpt::softcuda::driver {

// The PTX to link to the parts of a program; null: they call no such function.
const char *device_library_for(const std::vector<std::string> &ptx);

}  // namespace ckpt::softcuda::driver
