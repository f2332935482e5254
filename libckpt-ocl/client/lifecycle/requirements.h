// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace ckpt::ocl {

// What another device must offer to take over this process, as JSON for `ckpt-ocl-proxy --check`.
// Images store it, so these keys never change; new ones may be added.
//
//   {"devices": [{number, platform, name, nth, used, limits: {name: value read},
//                 largest_buffer, buffer_bytes, sub_buffer_alignment,
//                 images: [{type, order, channel, access, width, height, depth, layers,
//                 row_pitch}]}],
//    "programs": [{number, devices: [number], source, options, built, native_only, il,
//                  units: [{source, options, headers: [{name, source}]}],
//                  kernels: [{name, work_items, local_size, local_bytes}]}]}
//
// Sizes are in bytes, image sizes in pixels. Call with the gate closed.
std::string requirements_as_json();

}  // namespace ckpt::ocl
