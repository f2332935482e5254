// SPDX-License-Identifier: Apache-2.0
//
// Where a call is made. It only matters to a program that is split: some of its devices are of this
// node, by the driver in its process (native.h), and the others are the server's. Then a call goes
// to the side that has its device.
#pragma once

#include "remote/cuda/handles.h"

namespace ckpt::remote::cuda {

struct Site {
  enum class By : u8 {
    Context,  // in this one; without one, at the server
    Device,   // for the program's device of this number
    Server,
    Own,  // the driver in this process
    All,  // both: for objects of no device (libraries, kernels)
  };
  By by = By::Context;
  u64 context = 0;  // goes along, if the side has it
  CUdevice device = 0;

  // NOLINTNEXTLINE(google-explicit-constructor): most calls are for a context
  Site(u64 context) : context(context) {}
  Site(By by, u64 context, CUdevice device = 0) : by(by), context(context), device(device) {}
};

}  // namespace ckpt::remote::cuda
