// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libckpt-ocl/proxy/server.h"

namespace ckpt::ocl {

bool is_image(cl_mem mem);
// Bytes between an image and memory, as one row (image_pieces.h). No command is under way.
cl_int move_image(cl_command_queue queue, cl_mem image, bool reading, u64 offset, u64 bytes,
                  std::byte *data);
// What the context's devices take, as an array of cl_image_format.
cl_int image_formats(cl_context context, cl_mem_flags flags, cl_mem_object_type type, Bytes &value);

}  // namespace ckpt::ocl
