// SPDX-License-Identifier: Apache-2.0
//
// The pass for SPIR-V: it makes a module with kernels that can be launched in slices, in the forms
// of opencl_source.h. See spirv.cc.
#pragma once

#include <string>

#include "common/base/bytes.h"

namespace ckpt::slicing {

struct SlicedSpirv {
  std::string whole;      // why its kernels run whole; empty: `module` can be launched in slices
  bool may_wait = false;  // a work-group may wait for what another one writes
  Bytes module;
};

// Any bytes.
SlicedSpirv sliced_spirv(ByteView module, u32 form);

}  // namespace ckpt::slicing
