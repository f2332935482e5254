// SPDX-License-Identifier: Apache-2.0
//
// The sections .nv.info.KERNEL of a cubin: a list of attributes, among them the parameters of the
// kernel. An attribute is a u8 format, a u8 name and a u16, which is the value or, for format 4,
// the number of bytes that follow. NVIDIA does not document them: the layout was derived by
// comparing cubins with the PTX of the same kernels, and tests/system/test_fatbin.py compares them
// again.
#pragma once

#include "fatbin/facts.h"

namespace ckpt::fatbin {

// Fills the parameters of `kernel`, in order. A damaged section is an error.
Result<> read_parameters(ByteView section, Kernel &kernel);

}  // namespace ckpt::fatbin
