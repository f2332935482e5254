// SPDX-License-Identifier: Apache-2.0
//
// The options of one call of the driver's compiler or linker, as arrays, and what it answers.
//
//   JitCall jit(options);
//   driver().cuModuleLoadDataEx(&m, code, jit.n(), jit.options(), jit.values());
//   put(c.out, jit.answer());
#pragma once

#include <chrono>

#include "common/base/clock.h"
#include "remote/cuda/jit_options.h"

namespace ckpt::remote::cuda {

// Stays where it is: the driver writes into its buffers.
class JitCall {
 public:
  explicit JitCall(const JitOptions &wanted);
  JitCall(const JitCall &) = delete;
  JitCall &operator=(const JitCall &) = delete;

  unsigned n() const { return static_cast<unsigned>(options_.size()); }
  CUjit_option *options() { return options_.data(); }
  void **values() { return values_.data(); }
  // After the call. The time is that since the object was made.
  JitAnswer answer() const;

 private:
  void add(CUjit_option option, const void *value);
  void add_log(CUjit_option buffer, CUjit_option size, std::string &text, u32 bytes);

  std::vector<CUjit_option> options_;
  std::vector<void *> values_;
  std::string info_, error_;
  Clock::time_point begun_ = Clock::now();
};

}  // namespace ckpt::remote::cuda
