// SPDX-License-Identifier: Apache-2.0
//
// The results of cuLinkComplete.
#pragma once

#include "softcuda/driver/process.h"

namespace ckpt::softcuda::driver {

// The PTX inputs behind an address that cuLinkComplete returned. False: it returned no such
// address.
bool linked_code(const void *code, std::vector<std::string> &ptx);

}  // namespace ckpt::softcuda::driver
