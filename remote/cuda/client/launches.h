// SPDX-License-Identifier: Apache-2.0
//
// Launches of kernels and of functions in the program.
#pragma once

#include <vector>

#include "remote/cuda/client/client.h"

namespace ckpt::remote::cuda {

// Where a parameter lies among the packed ones.
struct ParameterPlace {
  u64 offset, bytes;
};
struct ParameterLayout {
  std::vector<ParameterPlace> places;
  bool by_exact_grid;  // the driver judges a launch by the exact size of its grid
};
// Of a function; asked once.
CUresult layout_of(u64 function, const ParameterLayout *&out);
// The parameters as one piece of memory, from either form in which a program may give them.
CUresult pack(u64 function, void **parameters, void **extra, Bytes &out);
// CUDA_ERROR_NOT_SUPPORTED, and a warning, if an attribute changes what the launch does and is not
// carried.
CUresult check_attributes(const CUlaunchAttribute *attributes, size_t n);
// The program sets this attribute of a function.
void note_attribute_set(CUfunction_attribute what);
CUresult launch_packed(const CUlaunchConfig &config, CUfunction function, ByteView parameters);

// Calls the function in the program when the stream has got so far.
CUresult call_host(CUstream stream, Link::HostFunction function);

}  // namespace ckpt::remote::cuda
