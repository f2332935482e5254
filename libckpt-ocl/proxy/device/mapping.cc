// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/proxy/device/mapping.h"

namespace ckpt::ocl {
namespace {

const RealDevice *identical_device(const ProgramDevice &w, const std::vector<RealPlatform> &all) {
  for (const RealPlatform &p : all)
    for (const RealDevice &d : p.devices)
      if (p.name == w.platform && d.name == w.name && d.nth == w.nth) return &d;
  return nullptr;
}

Failure no_counterpart(const ProgramDevice &w) {
  return fail_with_hint(
      fmt::format("the program uses the device \"{}\" of \"{}\", which this machine does not have",
                  w.name, w.platform),
      "choose another one with --device; ckpt-run --list-devices lists them");
}

}  // namespace

Result<std::vector<const RealDevice *>> map_program_devices(
    const std::vector<ProgramDevice> &devices, const std::vector<RealPlatform> &all, bool chosen) {
  std::vector<const RealDevice *> list;
  for (const RealPlatform &p : all)
    for (const RealDevice &d : p.devices) list.push_back(&d);
  size_t next = 0;
  std::vector<const RealDevice *> out;
  for (const ProgramDevice &w : devices) {
    const RealDevice *d = identical_device(w, all);
    if (!d && w.used && chosen && !list.empty()) {
      d = list[std::min(next, list.size() - 1)];
      next++;
    }
    if (!d && w.used) return no_counterpart(w);
    out.push_back(d);
  }
  return out;
}

}  // namespace ckpt::ocl
