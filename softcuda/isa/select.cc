// SPDX-License-Identifier: Apache-2.0
#include "softcuda/isa/select.h"

#include <cstdlib>
#include <string_view>

namespace ckpt::softcuda::isa {
namespace {

// For tests, CKPT_SOFTCUDA_ISA=baseline runs what a processor without AVX2 would run.
bool has_avx2() {
  const char *wanted = std::getenv("CKPT_SOFTCUDA_ISA");
  if (wanted != nullptr && std::string_view(wanted) == "baseline") return false;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
         __builtin_cpu_supports("bmi2");
}

}  // namespace

bool select(const ptx::Instruction &in, Selected &out) {
  static const bool kHasAvx2 = has_avx2();
  return kHasAvx2 ? v3::select(in, out) : baseline::select(in, out);
}

}  // namespace ckpt::softcuda::isa
