// SPDX-License-Identifier: Apache-2.0
#include "softcuda/driver/code/jit_outputs.h"

#include "common/base/clock.h"
#include "softcuda/driver/state/process.h"

namespace ckpt::softcuda::driver {
namespace {

thread_local std::string errors;

}  // namespace

void compiler_error(const std::string &text) {
  warn(text);
  errors += text + "\n";
}

JitCall::JitCall(unsigned n, const CUjit_option *options, void **values)
    : outputs_(n, options, values) {
  errors.clear();
}

CUresult JitCall::done(CUresult e) const {
  std::chrono::duration<float, std::milli> took = Clock::now() - begun_;
  outputs_.write("", e == CUDA_SUCCESS ? "" : errors, took.count());
  return e;
}

}  // namespace ckpt::softcuda::driver
