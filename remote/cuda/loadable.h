// SPDX-License-Identifier: Apache-2.0
//
// Device code in the form in which a program passes it to a driver, put together from its parts.
#pragma once

#include <vector>

#include "fatbin/image.h"

namespace ckpt::remote::cuda {

struct Loadable {
  const void *code = nullptr;
  std::vector<u64> wrapper;            // of a fat binary
  std::vector<const void *> pointers;  // to its translation units
};

// `parts` are at least one: containers, a cubin, or a text of PTX that ends with 0. They must stay
// where they are.
Loadable make_loadable(fatbin::Form form, std::vector<const void *> parts);

}  // namespace ckpt::remote::cuda
