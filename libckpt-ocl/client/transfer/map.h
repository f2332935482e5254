// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libckpt-ocl/client/transfer/transfer.h"

namespace ckpt::ocl {

// The host address of the start of `m`. Makes the root's shadow if there is none yet; null: there
// is no memory for it.
std::byte *host_side(Mem &m);

// A marker in the place of a command that moves no bytes.
cl_int enqueue_marker(cl_command_queue queue, cl_command_type type, Waits waits, Blocking blocking,
                      cl_event *out);

// The immediate errors of a map's flags.
bool are_map_flags_valid(cl_map_flags flags);
cl_int check_map_flags(const Mem &m, cl_map_flags flags);

// Maps a region of a buffer or an image into host memory; sets map.at.
cl_int map_region(cl_command_queue queue, cl_command_type type, Mem &m, Mem::Map &map,
                  Blocking blocking, Waits waits, cl_event *out);
cl_int unmap_region(cl_command_queue queue, Mem &m, void *at, Waits waits, cl_event *out);

}  // namespace ckpt::ocl
