// SPDX-License-Identifier: Apache-2.0
//
// The commands on images. Transfers go one way, since their immediate errors are checked here.
// Copies and fills make a round trip: their errors depend on image formats, which only the driver
// knows.
#include "libckpt-ocl/client/entry/api_call.h"
#include "libckpt-ocl/client/entry/icd.h"
#include "libckpt-ocl/client/object/memory_flags.h"
#include "libckpt-ocl/client/transfer/image_transfer.h"
#include "libckpt-ocl/client/transfer/map.h"

namespace ckpt::ocl {
namespace {

cl_int check_image(cl_command_queue queue, cl_mem image) {
  auto *q = object<Queue>(queue);
  if (!q) return CL_INVALID_COMMAND_QUEUE;
  if (cl_int r = check_mem(*q, image); r != CL_SUCCESS) return r;
  return object<Mem>(image)->image ? CL_SUCCESS : CL_INVALID_MEM_OBJECT;
}

cl_int check_buffer(const Queue &q, cl_mem buffer) {
  if (cl_int r = check_mem(q, buffer); r != CL_SUCCESS) return r;
  return object<Mem>(buffer)->image ? CL_INVALID_MEM_OBJECT : CL_SUCCESS;
}

cl_int read_region(const Image &im, const size_t *origin, const size_t *region, ImageBox &box) {
  if (!origin || !region) return CL_INVALID_VALUE;
  for (size_t d = 0; d < 3; d++) {
    box.origin[d] = origin[d];
    box.region[d] = region[d];
    if (region[d] == 0 || origin[d] > im.extent[d] || region[d] > im.extent[d] - origin[d])
      return CL_INVALID_VALUE;
  }
  return CL_SUCCESS;
}

// Checks the host's pitches; replaces pitches of 0 by their meaning.
cl_int read_pitches(const Image &im, const ImageBox &box, size_t row, size_t slice, Pitches &out) {
  size_t least = box.region[0] * im.element;
  if (row == 0) row = least;
  if (row < least) return CL_INVALID_VALUE;
  bool has_slices = im.layered_rows() || im.extent[2] > 1;
  least = im.layered_rows() ? row : row * box.region[1];
  if (slice == 0 || !has_slices) slice = least;
  out = {row, slice};
  return slice < least ? CL_INVALID_VALUE : CL_SUCCESS;
}

bool same_format(const Image &a, const Image &b) {
  return a.format.image_channel_order == b.format.image_channel_order &&
         a.format.image_channel_data_type == b.format.image_channel_data_type;
}

bool overlap(const ImageBox &a, const ImageBox &b) {
  for (size_t d = 0; d < 3; d++)
    if (a.origin[d] >= b.origin[d] + b.region[d] || b.origin[d] >= a.origin[d] + a.region[d])
      return false;
  return true;
}

// The checked arguments of a transfer, or its immediate error.
struct Transfer {
  cl_int status;
  ImageBox box;
  Pitches pitches;

  Transfer(cl_command_queue queue, cl_mem image, const size_t *origin, const size_t *region,
           size_t row, size_t slice, const void *host, cl_mem_flags denied) {
    status = check_image(queue, image);
    if (status == CL_SUCCESS && !host) status = CL_INVALID_VALUE;
    if (status != CL_SUCCESS) return;
    const Mem &m = *object<Mem>(image);
    if (m.flags & denied) status = CL_INVALID_OPERATION;
    if (status == CL_SUCCESS) status = read_region(*m.image, origin, region, box);
    if (status == CL_SUCCESS) status = read_pitches(*m.image, box, row, slice, pitches);
  }
};

// A part of a 1D image that was created from a buffer, as a part of that buffer. It is copied as
// such, because PoCL 3.1 crashes on such an image and rusticl (Mesa 22.3.6) copies wrong bytes.
struct BufferPart {
  cl_mem buffer = nullptr;  // null: another type of image
  size_t offset = 0, bytes = 0;

  BufferPart(cl_mem image, const ImageBox &box) {
    const Mem &m = *object<Mem>(image);
    if (m.image->desc.image_type != CL_MEM_OBJECT_IMAGE1D_BUFFER) return;
    buffer = handle<cl_mem>(m.parent.get());
    offset = box.origin[0] * m.image->element;
    bytes = box.region[0] * m.image->element;
  }
};

// An argument that a deferred command keeps by value, as the function takes it.
template <class T>
T argument(const T &v) {
  return v;
}
const size_t *argument(const std::array<size_t, 3> &v) { return v.data(); }
const void *argument(const std::array<cl_uint, 4> &v) { return v.data(); }

// Runs a command with a round trip. `uses` are its memory objects, which are kept alive until it is
// sent; it writes to the last of them.
template <auto Fn, class... A>
cl_int run_round_trip(cl_command_queue queue, cl_command_type type, Waits waits, cl_event *out,
                      std::initializer_list<cl_mem> uses, A... args) {
  Command c(queue, type, waits);
  if (c.status() != CL_SUCCESS) return c.status();
  std::vector<Ref<Mem>> keep;
  for (cl_mem m : uses) keep.emplace_back(object<Mem>(m));
  return c.run(out, Trip::Round, [=, keep = std::move(keep)](Command &it) {
    it.writes(*keep.back());
    return it.send<Fn>(Trip::Round, queue, argument(args)..., it.waits().count, it.waits().list,
                       nullptr);
  });
}

}  // namespace
}  // namespace ckpt::ocl

namespace ckpt::ocl::entry {

cl_int clEnqueueReadImage(cl_command_queue queue, cl_mem image, cl_bool blocking,
                          const size_t *origin, const size_t *region, size_t row, size_t slice,
                          void *host, cl_uint n, const cl_event *list, cl_event *out) {
  ApiCall call;
  Transfer t(queue, image, origin, region, row, slice, host, kNoRead);
  if (t.status != CL_SUCCESS) return t.status;
  return read_box(queue, CL_COMMAND_READ_IMAGE, *object<Mem>(image), t.box, t.pitches, host,
                  blocking ? Blocking::Yes : Blocking::No, {n, list}, out);
}

cl_int clEnqueueWriteImage(cl_command_queue queue, cl_mem image, cl_bool blocking,
                           const size_t *origin, const size_t *region, size_t row, size_t slice,
                           const void *host, cl_uint n, const cl_event *list, cl_event *out) {
  ApiCall call;
  Transfer t(queue, image, origin, region, row, slice, host, kNoWrite);
  if (t.status != CL_SUCCESS) return t.status;
  return write_box(queue, CL_COMMAND_WRITE_IMAGE, *object<Mem>(image), t.box, t.pitches, host,
                   blocking ? Blocking::Yes : Blocking::No, {n, list}, out);
}

cl_int clEnqueueCopyImage(cl_command_queue queue, cl_mem src, cl_mem dst, const size_t *src_origin,
                          const size_t *dst_origin, const size_t *region, cl_uint n,
                          const cl_event *list, cl_event *out) {
  ApiCall call;
  if (cl_int r = check_image(queue, src); r != CL_SUCCESS) return r;
  if (cl_int r = check_image(queue, dst); r != CL_SUCCESS) return r;
  const Image &from = *object<Mem>(src)->image, &to = *object<Mem>(dst)->image;
  ImageBox a, b;
  if (cl_int r = read_region(from, src_origin, region, a); r != CL_SUCCESS) return r;
  if (cl_int r = read_region(to, dst_origin, region, b); r != CL_SUCCESS) return r;
  if (!same_format(from, to)) return CL_IMAGE_FORMAT_MISMATCH;
  if (src == dst && overlap(a, b)) return CL_MEM_COPY_OVERLAP;
  constexpr cl_command_type kType = CL_COMMAND_COPY_IMAGE;
  BufferPart l(src, a), m(dst, b);
  if (l.buffer && m.buffer)
    return run_round_trip<&::clEnqueueCopyBuffer>(queue, kType, {n, list}, out, {src, dst},
                                                  l.buffer, m.buffer, l.offset, m.offset, l.bytes);
  if (l.buffer)
    return run_round_trip<&::clEnqueueCopyBufferToImage>(
        queue, kType, {n, list}, out, {src, dst}, l.buffer, dst, l.offset, b.origin, b.region);
  if (m.buffer)
    return run_round_trip<&::clEnqueueCopyImageToBuffer>(
        queue, kType, {n, list}, out, {src, dst}, src, m.buffer, a.origin, a.region, m.offset);
  return run_round_trip<&::clEnqueueCopyImage>(queue, kType, {n, list}, out, {src, dst}, src, dst,
                                               a.origin, b.origin, a.region);
}

cl_int clEnqueueFillImage(cl_command_queue queue, cl_mem image, const void *color,
                          const size_t *origin, const size_t *region, cl_uint n,
                          const cl_event *list, cl_event *out) {
  ApiCall call;
  if (cl_int r = check_image(queue, image); r != CL_SUCCESS) return r;
  const Image &im = *object<Mem>(image)->image;
  ImageBox box;
  if (!color) return CL_INVALID_VALUE;
  if (cl_int r = read_region(im, origin, region, box); r != CL_SUCCESS) return r;
  // The colour of a depth image is one number, of any other image four.
  bool depth = im.format.image_channel_order == CL_DEPTH;
  std::array<cl_uint, 4> four{};
  std::memcpy(four.data(), color, depth ? sizeof(cl_float) : sizeof four);
  return run_round_trip<&::clEnqueueFillImage>(queue, CL_COMMAND_FILL_IMAGE, {n, list}, out,
                                               {image}, image, four, box.origin, box.region);
}

cl_int clEnqueueCopyImageToBuffer(cl_command_queue queue, cl_mem src, cl_mem dst,
                                  const size_t *origin, const size_t *region, size_t offset,
                                  cl_uint n, const cl_event *list, cl_event *out) {
  ApiCall call;
  if (cl_int r = check_image(queue, src); r != CL_SUCCESS) return r;
  if (cl_int r = check_buffer(*object<Queue>(queue), dst); r != CL_SUCCESS) return r;
  ImageBox box;
  if (cl_int r = read_region(*object<Mem>(src)->image, origin, region, box); r != CL_SUCCESS)
    return r;
  constexpr cl_command_type kType = CL_COMMAND_COPY_IMAGE_TO_BUFFER;
  if (BufferPart l(src, box); l.buffer)
    return run_round_trip<&::clEnqueueCopyBuffer>(queue, kType, {n, list}, out, {src, dst},
                                                  l.buffer, dst, l.offset, offset, l.bytes);
  return run_round_trip<&::clEnqueueCopyImageToBuffer>(queue, kType, {n, list}, out, {src, dst},
                                                       src, dst, box.origin, box.region, offset);
}

cl_int clEnqueueCopyBufferToImage(cl_command_queue queue, cl_mem src, cl_mem dst, size_t offset,
                                  const size_t *origin, const size_t *region, cl_uint n,
                                  const cl_event *list, cl_event *out) {
  ApiCall call;
  if (cl_int r = check_image(queue, dst); r != CL_SUCCESS) return r;
  if (cl_int r = check_buffer(*object<Queue>(queue), src); r != CL_SUCCESS) return r;
  ImageBox box;
  if (cl_int r = read_region(*object<Mem>(dst)->image, origin, region, box); r != CL_SUCCESS)
    return r;
  constexpr cl_command_type kType = CL_COMMAND_COPY_BUFFER_TO_IMAGE;
  if (BufferPart l(dst, box); l.buffer)
    return run_round_trip<&::clEnqueueCopyBuffer>(queue, kType, {n, list}, out, {src, dst}, src,
                                                  l.buffer, offset, l.offset, l.bytes);
  return run_round_trip<&::clEnqueueCopyBufferToImage>(queue, kType, {n, list}, out, {src, dst},
                                                       src, dst, offset, box.origin, box.region);
}

void *clEnqueueMapImage(cl_command_queue queue, cl_mem image, cl_bool blocking, cl_map_flags flags,
                        const size_t *origin, const size_t *region, size_t *row, size_t *slice,
                        cl_uint n, const cl_event *list, cl_event *out, cl_int *errcode) {
  ApiCall call;
  Mem::Map map{nullptr, 0, 0, flags, ImageBox{}};
  cl_int r = check_image(queue, image);
  auto *m = r == CL_SUCCESS ? object<Mem>(image) : nullptr;
  if (m) r = read_region(*m->image, origin, region, *map.box);
  if (r == CL_SUCCESS) r = check_map_flags(*m, flags);
  if (r == CL_SUCCESS && (!row || (m->image->slice_pitch && !slice))) r = CL_INVALID_VALUE;
  if (r == CL_SUCCESS)
    r = map_region(queue, CL_COMMAND_MAP_IMAGE, *m, map, blocking ? Blocking::Yes : Blocking::No,
                   {n, list}, out);
  if (errcode) *errcode = r;
  if (r != CL_SUCCESS) return nullptr;
  *row = m->image->row_pitch;
  if (slice) *slice = m->image->slice_pitch;
  return map.at;
}

}  // namespace ckpt::ocl::entry
