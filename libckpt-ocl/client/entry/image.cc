// SPDX-License-Identifier: Apache-2.0
//
// Images. As with buffers, the images in the proxy never use the application's host memory:
// pitches, and synchronizing the host's copy at map and unmap, are handled here (image_transfer.cc,
// map.cc). The description of an image is kept, so that most queries need no round trip.
#include <algorithm>

#include "libckpt-ocl/client/entry/api_call.h"
#include "libckpt-ocl/client/entry/icd.h"
#include "libckpt-ocl/client/lifecycle/manager_requests.h"
#include "libckpt-ocl/client/object/create.h"
#include "libckpt-ocl/client/object/info.h"
#include "libckpt-ocl/client/object/memory_flags.h"
#include "libckpt-ocl/client/object/pitches.h"
#include "libckpt-ocl/client/transfer/transfer.h"

namespace ckpt::ocl {
namespace {

std::array<size_t, 3> extent_of(const cl_image_desc &d) {
  switch (d.image_type) {
    case CL_MEM_OBJECT_IMAGE1D_ARRAY: return {d.image_width, d.image_array_size, 1};
    case CL_MEM_OBJECT_IMAGE2D: return {d.image_width, d.image_height, 1};
    case CL_MEM_OBJECT_IMAGE2D_ARRAY: return {d.image_width, d.image_height, d.image_array_size};
    case CL_MEM_OBJECT_IMAGE3D: return {d.image_width, d.image_height, d.image_depth};
    default: return {d.image_width, 1, 1};
  }
}

// Finds the buffer that the image is to be created from, if any, and checks the combination.
cl_int find_buffer(const Context &c, const cl_image_desc &d, cl_mem_flags flags, Mem *&buffer) {
  bool of_buffer = d.image_type == CL_MEM_OBJECT_IMAGE1D_BUFFER;
  if (!d.mem_object) return of_buffer ? CL_INVALID_IMAGE_DESCRIPTOR : CL_SUCCESS;
  if (!of_buffer && d.image_type != CL_MEM_OBJECT_IMAGE2D) return CL_INVALID_IMAGE_DESCRIPTOR;
  buffer = object<Mem>(d.mem_object);
  if (!buffer || buffer->image) return CL_INVALID_IMAGE_DESCRIPTOR;
  if (buffer->context.get() != &c) return CL_INVALID_CONTEXT;
  return flags & kHostPointer ? CL_INVALID_VALUE : CL_SUCCESS;
}

// Bytes of an element, as long as no driver has reported it (OpenCL specification, image channel
// orders and data types). An unknown format counts as the largest.
size_t element_of(const cl_image_format &f) {
  size_t channels = 4;
  switch (f.image_channel_order) {
    case CL_R:
    case CL_A:
    case CL_INTENSITY:
    case CL_LUMINANCE:
    case CL_DEPTH: channels = 1; break;
    case CL_RG:
    case CL_RA:
    case CL_Rx: channels = 2; break;
    default: break;
  }
  switch (f.image_channel_data_type) {
    case CL_UNORM_SHORT_565:
    case CL_UNORM_SHORT_555: return 2;
    case CL_UNORM_INT_101010:
    case CL_UNORM_INT_101010_2:
    case CL_UNORM_INT24: return 4;
    case CL_SNORM_INT8:
    case CL_UNORM_INT8:
    case CL_SIGNED_INT8:
    case CL_UNSIGNED_INT8: return channels;
    case CL_SNORM_INT16:
    case CL_UNORM_INT16:
    case CL_SIGNED_INT16:
    case CL_UNSIGNED_INT16:
    case CL_HALF_FLOAT: return 2 * channels;
    default: return 4 * channels;
  }
}

// Bytes of device memory. The driver refuses sizes that overflow.
u64 bytes_of(const Image &im) {
  u64 bytes = element_of(im.format);
  for (size_t n : im.extent)
    if (__builtin_mul_overflow(bytes, u64{n}, &bytes)) return ~u64{0};
  return bytes;
}

cl_int check_description(const cl_image_desc &d) {
  bool known =
      d.image_type >= CL_MEM_OBJECT_IMAGE2D && d.image_type <= CL_MEM_OBJECT_IMAGE1D_BUFFER;
  return known && d.num_mip_levels == 0 && d.num_samples == 0 ? CL_SUCCESS
                                                              : CL_INVALID_IMAGE_DESCRIPTOR;
}

// The layout of host memory with the description's pitches; `given`: there is such memory.
cl_int lay_out_host(const Image &im, bool given, Pitches &out) {
  const cl_image_desc &d = im.desc;
  if (!given && (d.image_row_pitch || d.image_slice_pitch)) return CL_INVALID_IMAGE_DESCRIPTOR;
  size_t row = d.image_row_pitch ? d.image_row_pitch : im.extent[0] * im.element;
  if (row < im.extent[0] * im.element || row % im.element != 0) return CL_INVALID_IMAGE_DESCRIPTOR;
  size_t slice_rows = im.layered_rows() ? 1 : im.extent[1];
  size_t slice = d.image_slice_pitch ? d.image_slice_pitch : row * slice_rows;
  bool has_slices = im.layered_rows() || im.extent[2] > 1 ||
                    d.image_type == CL_MEM_OBJECT_IMAGE3D ||
                    d.image_type == CL_MEM_OBJECT_IMAGE2D_ARRAY;
  if (has_slices && (slice < row * slice_rows || slice % row != 0))
    return CL_INVALID_IMAGE_DESCRIPTOR;
  out = {row, has_slices ? slice : 0};
  return CL_SUCCESS;
}

Pitches tight(const Image &im) {
  size_t row = im.extent[0] * im.element;
  if (im.layered_rows()) return {row, row};
  bool has_slices = im.desc.image_type == CL_MEM_OBJECT_IMAGE3D ||
                    im.desc.image_type == CL_MEM_OBJECT_IMAGE2D_ARRAY;
  return {row, has_slices ? row * im.extent[1] : 0};
}

// Creates the proxy's side. The driver checks format and sizes, and reports the size of an element,
// which becomes part of the ledger entry: a new device with another element size must refuse it.
cl_int make(Mem &m, cl_mem_flags flags) {
  Image &im = *m.image;
  const cl_image_desc &d = im.desc;
  auto payload = [&] {
    Writer w;
    w.put(m.context->number).put(u64{flags}).put(u32{im.format.image_channel_order});
    w.put(u32{im.format.image_channel_data_type}).put(u32{d.image_type}).put(u64{d.image_width});
    w.put(u64{d.image_height}).put(u64{d.image_depth}).put(u64{d.image_array_size});
    w.put(u64{m.parent ? d.image_row_pitch : 0}).put(u64{m.parent ? m.parent->number : 0});
    w.put(u64{im.element});
    return w.take();
  };
  Bytes reply;
  cl_int status = link().round_trip(Op::CreateImage, m.number, payload(), &reply);
  if (status != CL_SUCCESS) return status;
  im.element = Reader(reply).get<u64>();
  m.record(static_cast<u16>(Op::CreateImage), payload());
  registry().add(&m);
  return im.element > 0 ? CL_SUCCESS : CL_OUT_OF_RESOURCES;
}

// Copies rows of host memory to staging, without gaps.
void gather(const Image &im, Pitches p, const std::byte *host, size_t at, size_t bytes,
            std::byte *to) {
  size_t row = im.extent[0] * im.element;
  while (bytes > 0) {
    size_t x = at % row, y = at / row % im.extent[1], z = at / row / im.extent[1];
    size_t n = std::min(row - x, bytes);
    std::memcpy(to, host + p.offset(im, {0, y, z}) + x, n);
    at += n;
    to += n;
    bytes -= n;
  }
}

// CL_MEM_COPY_HOST_PTR and CL_MEM_USE_HOST_PTR.
cl_int write_initial_contents(const Mem &m, Pitches p, const void *host) {
  return ocl::write_initial_contents(m, [&](size_t at, size_t bytes, std::byte *to) {
    gather(*m.image, p, static_cast<const std::byte *>(host), at, bytes, to);
  });
}

// After the proxy's side was created: sets sizes and pitches, and writes the initial contents.
cl_int lay_out_and_fill(Mem &m, void *host_ptr) {
  Image &im = *m.image;
  Pitches host{};
  if (cl_int r = lay_out_host(im, host_ptr || m.parent, host); r != CL_SUCCESS) return r;
  bool in_place = m.parent || (m.flags & CL_MEM_USE_HOST_PTR);
  Pitches mine = in_place ? host : tight(im);
  im.row_pitch = mine.row;
  im.slice_pitch = mine.slice;
  m.size = im.extent[0] * im.extent[1] * im.extent[2] * im.element;
  return host_ptr ? write_initial_contents(m, host, host_ptr) : CL_SUCCESS;
}

cl_int describe(Mem &m, const cl_image_format &format, const cl_image_desc &desc, void *host_ptr) {
  Mem *buffer = nullptr;
  if (cl_int r = check_description(desc); r != CL_SUCCESS) return r;
  if (cl_int r = find_buffer(*m.context, desc, m.flags, buffer); r != CL_SUCCESS) return r;
  if (cl_int r = check_flags(m.flags, host_ptr != nullptr); r != CL_SUCCESS) return r;
  m.image = Image{format, desc, 0, extent_of(desc), 0, 0};
  m.image->desc.mem_object = nullptr;
  if (m.flags & CL_MEM_USE_HOST_PTR) m.host_ptr = static_cast<std::byte *>(host_ptr);
  if (!buffer) return CL_SUCCESS;
  m.parent = Ref<Mem>(buffer);
  m.flags = inherited(m.flags, buffer->flags);
  m.host_ptr = buffer->host_ptr;
  return CL_SUCCESS;
}

// clCreateImage2D and …3D.
cl_image_desc plain_description(cl_mem_object_type type, size_t width, size_t height, size_t depth,
                                size_t row_pitch, size_t slice_pitch) {
  cl_image_desc d{};
  d.image_type = type;
  d.image_width = width;
  d.image_height = height;
  d.image_depth = depth;
  d.image_row_pitch = row_pitch;
  d.image_slice_pitch = slice_pitch;
  return d;
}

}  // namespace
}  // namespace ckpt::ocl

namespace ckpt::ocl::entry {

cl_mem clCreateImage(cl_context context, cl_mem_flags flags, const cl_image_format *format,
                     const cl_image_desc *desc, void *host_ptr, cl_int *errcode) {
  ApiCall call;
  auto *c = object<Context>(context);
  if (!c) return failed<cl_mem>(CL_INVALID_CONTEXT, errcode);
  if (!format) return failed<cl_mem>(CL_INVALID_IMAGE_FORMAT_DESCRIPTOR, errcode);
  if (!desc) return failed<cl_mem>(CL_INVALID_IMAGE_DESCRIPTOR, errcode);
  auto *m = new Mem;
  m->context = Ref<Context>(c);
  m->flags = flags;
  cl_int status = describe(*m, *format, *desc, host_ptr);
  if (!(m->flags & kKernelAccess)) m->flags |= CL_MEM_READ_WRITE;
  cl_mem_flags there = (m->parent ? flags : m->flags) & kKernelAccess;
  if (status == CL_SUCCESS)
    status = m->parent ? make(*m, there)
                       : create_managed(*m, bytes_of(*m->image), [&] { return make(*m, there); });
  if (status == CL_SUCCESS) status = lay_out_and_fill(*m, host_ptr);
  return created<cl_mem>(m, status, errcode);
}

cl_mem clCreateImageWithProperties(cl_context context, const cl_mem_properties *properties,
                                   cl_mem_flags flags, const cl_image_format *format,
                                   const cl_image_desc *desc, void *host_ptr, cl_int *errcode) {
  std::vector<cl_mem_properties> copy;
  if (cl_int r = read_properties(properties, copy); r != CL_SUCCESS)
    return failed<cl_mem>(r, errcode);
  cl_mem made = entry::clCreateImage(context, flags, format, desc, host_ptr, errcode);
  if (made) object<Mem>(made)->properties = std::move(copy);
  return made;
}

cl_mem clCreateImage2D(cl_context context, cl_mem_flags flags, const cl_image_format *format,
                       size_t width, size_t height, size_t row_pitch, void *host_ptr,
                       cl_int *errcode) {
  cl_image_desc d = plain_description(CL_MEM_OBJECT_IMAGE2D, width, height, 0, row_pitch, 0);
  return entry::clCreateImage(context, flags, format, &d, host_ptr, errcode);
}

cl_mem clCreateImage3D(cl_context context, cl_mem_flags flags, const cl_image_format *format,
                       size_t width, size_t height, size_t depth, size_t row_pitch,
                       size_t slice_pitch, void *host_ptr, cl_int *errcode) {
  cl_image_desc d =
      plain_description(CL_MEM_OBJECT_IMAGE3D, width, height, depth, row_pitch, slice_pitch);
  return entry::clCreateImage(context, flags, format, &d, host_ptr, errcode);
}

cl_int clGetImageInfo(cl_mem image, cl_image_info param, size_t room, void *value, size_t *needed) {
  ApiCall call;
  Answer out{room, value, needed};
  auto *m = object<Mem>(image);
  if (!m || !m->image) return CL_INVALID_MEM_OBJECT;
  const Image &im = *m->image;
  const cl_image_desc &d = im.desc;
  bool flat = d.image_type == CL_MEM_OBJECT_IMAGE1D || im.layered_rows() ||
              d.image_type == CL_MEM_OBJECT_IMAGE1D_BUFFER;
  bool array = im.layered_rows() || d.image_type == CL_MEM_OBJECT_IMAGE2D_ARRAY;
  bool solid = d.image_type == CL_MEM_OBJECT_IMAGE3D;
  switch (param) {
    case CL_IMAGE_FORMAT: return out.scalar(im.format);
    case CL_IMAGE_ELEMENT_SIZE: return out.scalar(im.element);
    case CL_IMAGE_ROW_PITCH: return out.scalar(im.row_pitch);
    case CL_IMAGE_SLICE_PITCH: return out.scalar(im.slice_pitch);
    case CL_IMAGE_WIDTH: return out.scalar(d.image_width);
    case CL_IMAGE_HEIGHT: return out.scalar(flat ? size_t{0} : d.image_height);
    case CL_IMAGE_DEPTH: return out.scalar(solid ? d.image_depth : size_t{0});
    case CL_IMAGE_ARRAY_SIZE: return out.scalar(array ? d.image_array_size : size_t{0});
    case CL_IMAGE_BUFFER: return out.scalar(handle<cl_mem>(m->parent.get()));
    case CL_IMAGE_NUM_MIP_LEVELS:
    case CL_IMAGE_NUM_SAMPLES: return out.scalar(cl_uint{0});
    default: return CL_INVALID_VALUE;
  }
}

cl_int clGetSupportedImageFormats(cl_context context, cl_mem_flags flags, cl_mem_object_type type,
                                  cl_uint room, cl_image_format *formats, cl_uint *count) {
  ApiCall call;
  auto *c = object<Context>(context);
  if (!c) return CL_INVALID_CONTEXT;
  if (formats && room == 0) return CL_INVALID_VALUE;
  Bytes value;
  if (cl_int r = remote_info(InfoOf::ImageFormats, *c, flags, type, value); r != CL_SUCCESS)
    return r;
  size_t n = value.size() / sizeof(cl_image_format);
  if (count) *count = static_cast<cl_uint>(n);
  if (formats && n > 0)
    std::memcpy(formats, value.data(), std::min<size_t>(n, room) * sizeof(cl_image_format));
  return CL_SUCCESS;
}

}  // namespace ckpt::ocl::entry
