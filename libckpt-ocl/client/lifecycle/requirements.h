// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ckpt::ocl {

// What another device must offer to take this process over, as JSON for `ckpt-ocl-proxy --check`:
//   {"devices": [{number, platform, name, nth, used, limits: {name: value read},
//                 largest_buffer, buffer_bytes}],
//    "programs": [{number, devices: [number], source, options, built, native_only,
//                  units: [{source, options, headers: [{name, source}]}],
//                  kernels: [{name, work_items}]}]}
// Call with the gate closed.
std::string requirements_as_json();

}  // namespace ckpt::ocl
