// SPDX-License-Identifier: Apache-2.0
#include "remote/cuda/jit_options.h"

namespace ckpt::remote::cuda {
namespace {

constexpr u32 kMaxNumbers = 64;

// cuda.h: "Option type: unsigned int", "int", "enum".
constexpr CUjit_option kNumbers[] = {CU_JIT_MAX_REGISTERS,
                                     CU_JIT_THREADS_PER_BLOCK,
                                     CU_JIT_OPTIMIZATION_LEVEL,
                                     CU_JIT_TARGET_FROM_CUCONTEXT,
                                     CU_JIT_TARGET,
                                     CU_JIT_FALLBACK_STRATEGY,
                                     CU_JIT_GENERATE_DEBUG_INFO,
                                     CU_JIT_LOG_VERBOSE,
                                     CU_JIT_GENERATE_LINE_INFO,
                                     CU_JIT_CACHE_MODE,
                                     CU_JIT_POSITION_INDEPENDENT_CODE,
                                     CU_JIT_MIN_CTA_PER_SM,
                                     CU_JIT_MAX_THREADS_PER_BLOCK,
                                     CU_JIT_OVERRIDE_DIRECTIVE_VALUES};

bool is_number(u32 option) {
  return std::ranges::any_of(kNumbers,
                             [&](CUjit_option o) { return static_cast<u32>(o) == option; });
}

}  // namespace

JitOptions jit_options(unsigned n, const CUjit_option *options, void **values) {
  JitOptions all;
  api::JitOutputs outputs(n, options, values);
  all.info_bytes = std::min(outputs.info_bytes(), kMaxLogBytes);
  all.error_bytes = std::min(outputs.error_bytes(), kMaxLogBytes);
  for (unsigned i = 0; options && values && i < n && all.numbers.size() < kMaxNumbers; i++)
    if (auto option = static_cast<u32>(options[i]); is_number(option))
      all.numbers.push_back({option, api::JitOutputs::number_in(values[i])});
  return all;
}

void put(Writer &w, const JitOptions &o) {
  w.put(static_cast<u32>(o.numbers.size()));
  for (const JitOptions::Number &n : o.numbers) w.put(n.option).put(n.value);
  w.put(o.info_bytes).put(o.error_bytes);
}

bool get(Reader &r, JitOptions &o) {
  u32 n = r.get<u32>();
  if (n > kMaxNumbers) return false;
  o.numbers.resize(n);
  for (JitOptions::Number &each : o.numbers) {
    each.option = r.get<u32>();
    each.value = r.get<u32>();
    if (!is_number(each.option)) return false;
  }
  o.info_bytes = r.get<u32>();
  o.error_bytes = r.get<u32>();
  return r.ok() && o.info_bytes <= kMaxLogBytes && o.error_bytes <= kMaxLogBytes;
}

void put(Writer &w, const JitAnswer &a) { w.str(a.info).str(a.error).put(a.microseconds); }

bool get(Reader &r, JitAnswer &a) {
  a.info = r.str();
  a.error = r.str();
  a.microseconds = r.get<u32>();
  return r.ok();
}

}  // namespace ckpt::remote::cuda
