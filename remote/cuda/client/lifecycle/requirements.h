// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "common/base/bytes.h"

namespace ckpt::remote::cuda {

struct KnownDevice {
  std::string name, uuid;
  u64 memory_bytes = 0;
  int capability = 0;  // ten times the compute capability
  bool used = false;
  u64 bytes = 0;  // of the program's memory there
};

// The server's devices, by their numbers. Asks the server.
std::vector<KnownDevice> read_devices();

// Why no driver can be in this process; empty: one can.
std::string why_no_driver_here();

// What other devices must offer to take over this process, as JSON for `ckpt-cuda-proxy --check`.
// Images store it, so these keys never change; new ones may be added.
//
//   {"forwarded": true,
//    "devices": [{number, name, uuid, memory_bytes, capability, used, bytes}],
//    "code": [{kernel, targets: ["sm_90", "compute_90"]}],
//    "split": ""}
//
// "forwarded" says that the program calls a server, which can be on any node. "split" says why its
// devices cannot be of several nodes; empty: they can. Older versions do not have it.
std::string requirements_as_json(const std::vector<KnownDevice> &devices);

}  // namespace ckpt::remote::cuda
