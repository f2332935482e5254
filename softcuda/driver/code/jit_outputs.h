// SPDX-License-Identifier: Apache-2.0
//
// What the compiler says to a program that has given it buffers. The options that change code have
// no meaning for an interpreter.
#pragma once

#include <chrono>
#include <string>

#include "common/base/clock.h"
#include "cuda/jit_outputs.h"

namespace ckpt::softcuda::driver {

// A warning that is also the error log of the thread's current JitCall.
void compiler_error(const std::string &text);

class JitCall {
 public:
  JitCall(unsigned n, const CUjit_option *options, void **values);
  CUresult done(CUresult e) const;  // returns `e`

 private:
  api::JitOutputs outputs_;
  Clock::time_point begun_ = Clock::now();
};

}  // namespace ckpt::softcuda::driver
