// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libckpt-ocl/client/transfer/transfer.h"

namespace ckpt::ocl {

// What the specification makes an immediate error of a map's flags.
cl_int check_map_flags(const Mem &m, cl_map_flags flags);

// Shows a region of a buffer or an image to the host: fills in map.at.
cl_int map_region(cl_command_queue queue, cl_command_type type, Mem &m, Mem::Map &map,
                  Blocking blocking, Waits waits, cl_event *out);

}  // namespace ckpt::ocl
