// SPDX-License-Identifier: Apache-2.0
//
// The check before a restore
//
// A restored program keeps everything that it decided on its first device: the limits that it read,
// the work-group sizes that it chose, the extensions that its kernels use, the sizes of its
// buffers. If the new device cannot serve all that, the program would fail somewhere after the
// restore, with an error that it does not expect. So ckpt-restore checks the device first, before
// it touches anything, and reports all reasons at once:
//
//   kernel g uses 65536 bytes of local memory; "llvmpipe" has 32768
//   kernel f runs in work-groups of 4096; "llvmpipe" supports at most 1024
//
// The client writes what it relies on as JSON (client/lifecycle/requirements.h), and the image
// stores it. For every used device, after the mapping (device/mapping.h):
//
//   limits        each limit that the program has read, by its rule in device_limits.h: a warning,
//                 since a limit that was read may not matter; a reason with `--strict-limits`
//   memory        the largest object, the sum of all, the alignment of sub-buffers
//   shared        shared virtual memory: whether the device works at the program's addresses, and
//                 whether they are free here; also for the same device
//   images        formats and sizes (check_images.h)
//   programs      a build for the new device, so that compiler errors appear now and not during the
//                 restore
//   kernels       the largest work-group and local memory of all launches, against what the driver
//                 reports for the kernel that was just built
//
// A device of the same driver and name needs no check: it has served all this before. The cost is
// one build of each program. Programs in an intermediate language are not built, because the
// requirements do not hold the module; only its version is compared.
#pragma once

#include "libckpt-ocl/proxy/device/real_devices.h"

namespace ckpt::ocl {

// What a lower limit means that the program has read, while every use so far fits.
enum class ReadLimits { Warn, Refuse, Ignore };

struct CheckOptions {
  std::string devices;  // keys as in real_platforms(); empty: all devices
  ReadLimits read_limits = ReadLimits::Warn;
};

struct CheckAnswer {
  std::vector<std::string> reasons;  // why the devices cannot take the program; empty: they can
  std::vector<std::string> warnings;
};

// Whether the devices can take over a program with these requirements.
CheckAnswer check_requirements(const nlohmann::json &requirements, const CheckOptions &options);

}  // namespace ckpt::ocl
