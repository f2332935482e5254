// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/transfer/image_transfer.h"

namespace ckpt::ocl {
namespace {

// The region as transfer.h takes it.
Rect as_rect(const Image &im, const ImageBox &box, Pitches p) {
  Rect r;
  for (size_t d = 0; d < 3; d++) {
    r.region[d] = box.region[d];
    r.buffer_origin[d] = box.origin[d];
  }
  r.region[0] *= im.element;
  r.buffer_origin[0] *= im.element;
  r.buffer_row = im.row_pitch;
  r.buffer_slice = im.row_pitch * im.extent[1];
  r.host_row = p.down(im);
  r.host_slice = p.slice ? p.slice : p.row * box.region[1];
  return r;
}

// The memory object that is transferred.
Mem &root_of(Mem &image) { return image.parent ? *image.parent : image; }

}  // namespace

cl_int read_box(cl_command_queue queue, cl_command_type type, Mem &image, const ImageBox &box,
                Pitches pitches, void *host, Blocking blocking, Waits waits, cl_event *out) {
  return read_rect(queue, type, root_of(image), as_rect(*image.image, box, pitches), host, blocking,
                   waits, out);
}

cl_int write_box(cl_command_queue queue, cl_command_type type, Mem &image, const ImageBox &box,
                 Pitches pitches, const void *host, Blocking blocking, Waits waits, cl_event *out) {
  return write_rect(queue, type, root_of(image), as_rect(*image.image, box, pitches), host,
                    blocking, waits, out);
}

cl_int send_box(Command &c, Mem &image, const ImageBox &box, Pitches pitches,
                const std::byte *host) {
  return send_write(c, root_of(image), as_rect(*image.image, box, pitches), host);
}

}  // namespace ckpt::ocl
