// SPDX-License-Identifier: Apache-2.0
#include "softcuda/isa/select.h"

#include "softcuda/isa/helpers.h"

namespace ckpt::softcuda::isa {
namespace {

bool modern() {
  static const bool kModern = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                              __builtin_cpu_supports("bmi2");
  return kModern;
}

}  // namespace

bool select(const ptx::Instruction &in, Selected &out) {
  return modern() ? v3::select(in, out) : baseline::select(in, out);
}

const Helpers &helpers() { return modern() ? v3::helpers() : baseline::helpers(); }

}  // namespace ckpt::softcuda::isa
