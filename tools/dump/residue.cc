// SPDX-License-Identifier: Apache-2.0
#include "tools/dump/residue.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "common/base/driver_files.h"
#include "tools/proc/descriptors.h"
#include "tools/proc/process.h"

namespace ckpt::tools {

void check_residue(pid_t pid, Reasons &reasons) {
  constexpr std::array kRings{"/memfd:ckpt-ring", "/memfd:ckpt-staging"};
  // libLLVM alone is not residue: compilers, Julia and Mesa map it. It belongs to a driver only if
  // that driver is mapped, too.
  constexpr std::array kDrivers{"libpocl", "libRusticl", "liboclgrind"};
  auto is_residue = [&](const std::string &path) {
    return std::any_of(kRings.begin(), kRings.end(),
                       [&](const char *s) { return path.starts_with(s); }) ||
           std::any_of(kDrivers.begin(), kDrivers.end(),
                       [&](const char *s) { return path.find(s) != std::string::npos; }) ||
           is_device_file(path);
  };
  bool nvml = false;
  for (const ProcMapping &m : mappings_of(pid)) {
    nvml = nvml || is_nvml_file(m.path);
    if (is_residue(m.path))
      reasons.push_back(fmt::format("process {} still has {} mapped", pid, m.path));
  }
  for (const Descriptor &d : descriptors_of(pid))
    if (is_residue(d.target))
      reasons.push_back(fmt::format("process {} still has {} open{}{}", pid, d.target,
                                    nvml && is_device_file(d.target) ? ": " : "",
                                    nvml && is_device_file(d.target) ? kNvmlRemedy : ""));
  std::sort(reasons.begin(), reasons.end());
  reasons.erase(std::unique(reasons.begin(), reasons.end()), reasons.end());
}

}  // namespace ckpt::tools
