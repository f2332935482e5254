// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/server/jit_call.h"

#include "common/base/clock.h"

namespace ckpt::remote::cuda {
namespace {

const void *as_pointer(u64 number) { return reinterpret_cast<const void *>(number); }

// The driver ends its text with a NUL, and all behind it is NUL from the start.
std::string up_to_nul(const std::string &buffer) { return buffer.substr(0, buffer.find('\0')); }

}  // namespace

JitCall::JitCall(const JitOptions &wanted) {
  for (const JitOptions::Number &n : wanted.numbers)
    add(static_cast<CUjit_option>(n.option), as_pointer(n.value));
  add_log(CU_JIT_INFO_LOG_BUFFER, CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES, info_, wanted.info_bytes);
  add_log(CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES, error_, wanted.error_bytes);
}

void JitCall::add(CUjit_option option, const void *value) {
  options_.push_back(option);
  values_.push_back(const_cast<void *>(value));
}

void JitCall::add_log(CUjit_option buffer, CUjit_option size, std::string &text, u32 bytes) {
  if (bytes == 0) return;
  text.resize(bytes);
  add(buffer, text.data());
  add(size, as_pointer(bytes));
}

JitAnswer JitCall::answer() const {
  auto took = Clock::now() - begun_;
  return {up_to_nul(info_), up_to_nul(error_),
          static_cast<u32>(std::chrono::duration_cast<std::chrono::microseconds>(took).count())};
}

}  // namespace ckpt::remote::cuda
