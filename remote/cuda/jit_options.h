// SPDX-License-Identifier: Apache-2.0
//
// Options of the driver's compiler and linker as they are sent: options with numbers as values, and
// how much the program wants to read of the logs.
#pragma once

#include <string>
#include <vector>

// Before any other header that includes cuda.h: it chooses which forms cuda.h declares.
#include "remote/cuda/handles.h"

#include "cuda/jit_outputs.h"

namespace ckpt::remote::cuda {

inline constexpr u32 kMaxLogBytes = 1u << 20;  // of one log

struct JitOptions {
  struct Number {
    u32 option, value;
  };
  std::vector<Number> numbers;
  u32 info_bytes = 0, error_bytes = 0;  // 0: that log is not wanted
};

// What the driver said.
struct JitAnswer {
  std::string info, error;
  u32 microseconds = 0;
};

// Of a program's arrays. Options with other pointers than those of logs are left out.
JitOptions jit_options(unsigned n, const CUjit_option *options, void **values);

void put(Writer &w, const JitOptions &o);
bool get(Reader &r, JitOptions &o);  // false: malformed
void put(Writer &w, const JitAnswer &a);
bool get(Reader &r, JitAnswer &a);

// To the program.
inline void write_answer(const api::JitOutputs &to, const JitAnswer &a) {
  to.write(a.info, a.error, static_cast<float>(a.microseconds) / 1000);
}

}  // namespace ckpt::remote::cuda
