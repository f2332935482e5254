// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libckpt-ocl/client/object/pitches.h"
#include "libckpt-ocl/client/transfer/transfer.h"

namespace ckpt::ocl {

// Reads a region of an image into `host`, where it has these pitches, or writes it. An image that
// was created from a buffer is transferred as that buffer, because not every driver handles such
// images correctly (rusticl of Mesa 22.3.6 reads wrong bytes).
cl_int read_box(cl_command_queue queue, cl_command_type type, Mem &image, const ImageBox &box,
                Pitches pitches, void *host, Blocking blocking, Waits waits, cl_event *out);
cl_int write_box(cl_command_queue queue, cl_command_type type, Mem &image, const ImageBox &box,
                 Pitches pitches, const void *host, Blocking blocking, Waits waits, cl_event *out);
// The part of a write that Command::run() calls.
cl_int send_box(Command &c, Mem &image, const ImageBox &box, Pitches pitches,
                const std::byte *host);

}  // namespace ckpt::ocl
