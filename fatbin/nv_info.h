// SPDX-License-Identifier: Apache-2.0
//
// The sections .nv.info.KERNEL of a cubin: a list of attributes, of which the parameters are read.
// An attribute is a u8 format, a u8 name and a u16, which is the value or (format 4) the number of
// bytes that follow. Found out by comparing with the PTX of the same kernels; the unit tests do so
// on what nvcc makes.
#pragma once

#include "fatbin/facts.h"

namespace ckpt::fatbin {

// Fills the parameters of a kernel, in their order. What is damaged is an error.
Result<> read_parameters(ByteView section, Kernel &kernel);

}  // namespace ckpt::fatbin
