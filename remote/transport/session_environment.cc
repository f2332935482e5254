// SPDX-License-Identifier: Apache-2.0
#include "remote/transport/session_environment.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>
#include <vector>

namespace ckpt::remote {
namespace {

constexpr std::array<std::string_view, 7> kNames{"PATH", "LANG",   "LANGUAGE", "TZ",
                                                 "HOME", "TMPDIR", "USER"};

// Of the C library and of ckpt; OpenCL's loaders; the drivers of the CPU, of NVIDIA, AMD and Intel,
// of Mesa and its compiler; and what checks the tests.
constexpr std::array<std::string_view, 36> kPrefixes{
    "LC_",   "LD_",     "CKPT_",    "SOFTCUDA_", "OCL_",     "OPENCL_", "POCL_",  "OCLGRIND_",
    "CUDA_", "NVIDIA_", "NV_",      "__NV_",     "HSA_",     "HIP_",    "ROCR_",  "AMD_",
    "GPU_",  "ROCM_",   "RUSTICL_", "MESA_",     "GALLIUM_", "LP_",     "LIBGL_", "RADV_",
    "LLVM_", "CLC_",    "INTEL_",   "NEO_",      "IGC_",     "ZE_",     "SYCL_",  "OMP_",
    "ASAN_", "TSAN_",   "UBSAN_",   "LSAN_"};

}  // namespace

bool is_for_sessions(std::string_view name) {
  return std::ranges::find(kNames, name) != kNames.end() ||
         std::ranges::any_of(kPrefixes, [name](std::string_view p) { return name.starts_with(p); });
}

void keep_environment_for_sessions() {
  std::vector<std::string> others;
  for (char **entry = environ; entry && *entry; entry++) {
    std::string name(*entry, std::string_view(*entry).find('='));
    if (!is_for_sessions(name)) others.push_back(name);
  }
  for (const std::string &name : others) ::unsetenv(name.c_str());
}

}  // namespace ckpt::remote
