// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::ocl {

// What another device must offer to take over this process, as JSON for `ckpt-ocl-proxy --check`.
// Images store it, so these keys never change; new ones may be added.
//
//   {"devices": [{number, platform, name, nth, used, limits: {name: value read},
//                 largest_buffer, buffer_bytes, sub_buffer_alignment,
//                 images: [{type, order, channel, access, width, height, depth, layers,
//                 row_pitch}]}],
//    "programs": [{number, devices: [number], source, options, built, native_only, il,
//                  files: place in file_sets or null,
//                  units: [{source, options, headers: [{name, source}], files}],
//                  kernels: [{name, work_items, local_size, local_bytes}]}],
//    "file_sets": [{folder, folders: [path], files: [{path, text}], absolute: [[name, path]]}]}
//
// Sizes are in bytes, image sizes in pixels. Call with the gate closed.
std::string requirements_as_json();

// The same while the program runs. Its calls wait for the milliseconds that this takes, because no
// object may end meanwhile.
Result<std::string> requirements_at_rest();

// About how many bytes of contents an image of the program has. At any time.
u64 bytes_of_memory();

// The same as requirements_as_json(), only for the programs that include a name which was not found
// as a file, to check whether they can be built without it. "same_driver_too": also by the driver
// that has built them. Empty: there are none.
std::string doubtful_programs_as_json();

// Appends the names of the devices of all contexts. At any time.
void append_used_devices(std::vector<std::string> &names);

}  // namespace ckpt::ocl
