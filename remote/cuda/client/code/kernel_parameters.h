// SPDX-License-Identifier: Apache-2.0
//
// Where the parameters of a kernel lie among the packed ones, which are what a launch sends.
#pragma once

#include <vector>

#include "remote/cuda/client/objects/client.h"

namespace ckpt::remote::cuda {

struct ParameterLayout {
  std::vector<ByteRange> places;
  bool by_exact_grid;  // the driver judges a launch by the exact size of its grid
};
// Of a function; asked once.
CUresult layout_of(u64 function, const ParameterLayout *&out);
// The parameters as one piece of memory, from either form in which a program may give them.
CUresult pack(u64 function, void **parameters, void **extra, Bytes &out);

}  // namespace ckpt::remote::cuda
