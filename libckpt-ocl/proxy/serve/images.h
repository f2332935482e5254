// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libckpt-ocl/proxy/serve/server.h"

namespace ckpt::ocl {

bool is_image(cl_mem mem);
// Copies bytes between an image and memory, in the order of image_pieces.h. No command is under
// way.
cl_int move_image(cl_command_queue queue, cl_mem image, bool reading, u64 offset, u64 bytes,
                  std::byte *data);
// clEnqueueCopyImageToBuffer through a temporary buffer, for a driver that writes to wrong offsets
// (quirks.h). `event` becomes the event of the second step.
cl_int copy_image_in_two_steps(cl_command_queue queue, cl_mem image, cl_mem buffer,
                               const size_t *origin, const size_t *region, size_t offset, cl_uint n,
                               const cl_event *list, cl_event *event);
// The formats that the context's devices support, as an array of cl_image_format.
cl_int image_formats(cl_context context, cl_mem_flags flags, cl_mem_object_type type, Bytes &value);

}  // namespace ckpt::ocl
