// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libckpt-ocl/client/object/pitches.h"
#include "libckpt-ocl/client/transfer/transfer.h"

namespace ckpt::ocl {

// Reads a region of an image into `host`, which lies there as `pitches` say, or writes it. An image
// that was made from a buffer is that buffer's bytes, and is moved as such: not every driver gets
// the image commands right for those (rusticl of Mesa 22.3.6 reads other bytes).
cl_int read_box(cl_command_queue queue, cl_command_type type, Mem &image, const ImageBox &box,
                Pitches pitches, void *host, Blocking blocking, Waits waits, cl_event *out);
cl_int write_box(cl_command_queue queue, cl_command_type type, Mem &image, const ImageBox &box,
                 Pitches pitches, const void *host, Blocking blocking, Waits waits, cl_event *out);
// Writes for a command that has been checked and now runs (Command::run).
cl_int send_box(Command &c, Mem &image, const ImageBox &box, Pitches pitches,
                const std::byte *host);

}  // namespace ckpt::ocl
