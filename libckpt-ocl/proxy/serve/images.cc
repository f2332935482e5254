// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/proxy/serve/images.h"

#include "libckpt-ocl/image_pieces.h"
#include "libckpt-ocl/proxy/device/quirks.h"

namespace ckpt::ocl {
namespace {

size_t image_number(cl_mem image, cl_image_info param) {
  size_t v = 0;
  return ::clGetImageInfo(image, param, sizeof v, &v, nullptr) == CL_SUCCESS ? v : 0;
}

cl_mem_object_type type_of(cl_mem mem) {
  cl_mem_object_type type = 0;
  ::clGetMemObjectInfo(mem, CL_MEM_TYPE, sizeof type, &type, nullptr);
  return type;
}

// Elements of a row, rows, slices; the layers of an array take the last place. Where a type lacks a
// dimension, drivers answer 0 or 1.
std::array<size_t, 3> extent_of(cl_mem image) {
  size_t width = image_number(image, CL_IMAGE_WIDTH), height = image_number(image, CL_IMAGE_HEIGHT);
  size_t layers = image_number(image, CL_IMAGE_ARRAY_SIZE);
  switch (type_of(image)) {
    case CL_MEM_OBJECT_IMAGE1D_ARRAY: return {width, layers, 1};
    case CL_MEM_OBJECT_IMAGE2D: return {width, height, 1};
    case CL_MEM_OBJECT_IMAGE2D_ARRAY: return {width, height, layers};
    case CL_MEM_OBJECT_IMAGE3D: return {width, height, image_number(image, CL_IMAGE_DEPTH)};
    default: return {width, 1, 1};
  }
}

// Bytes of a box of an image. No value: they overflow.
std::optional<u64> box_bytes(cl_mem image, const size_t region[3]) {
  u64 bytes = image_number(image, CL_IMAGE_ELEMENT_SIZE);
  for (int d = 0; d < 3; d++)
    if (__builtin_mul_overflow(bytes, region[d], &bytes)) return {};
  return bytes;
}

cl_image_desc read_description(Reader &r, u64 &buffer) {
  cl_image_desc d{};
  d.image_type = r.get<u32>();
  d.image_width = r.get<u64>();
  d.image_height = r.get<u64>();
  d.image_depth = r.get<u64>();
  d.image_array_size = r.get<u64>();
  d.image_row_pitch = r.get<u64>();
  buffer = r.get<u64>();
  return d;
}

}  // namespace

bool is_image(cl_mem mem) { return type_of(mem) != CL_MEM_OBJECT_BUFFER; }

void create_image(Server &s, const CommandHeader &h, Reader r) {
  auto context = s.objects.get<cl_context>(Kind::Context, r.get<u64>());
  cl_mem_flags flags = r.get<u64>();
  cl_image_format format{};
  format.image_channel_order = r.get<u32>();
  format.image_channel_data_type = r.get<u32>();
  u64 buffer = 0;
  cl_image_desc desc = read_description(r, buffer);
  u64 element = r.get<u64>();
  desc.mem_object = s.objects.get<cl_mem>(Kind::Mem, buffer);
  if (!context || !r.ok()) return s.reply(h, CL_INVALID_CONTEXT);
  if (buffer != 0 && !desc.mem_object) return s.reply(h, CL_INVALID_IMAGE_DESCRIPTOR);
  cl_int status = CL_SUCCESS;
  cl_mem image = ::clCreateImage(context, flags, &format, &desc, nullptr, &status);
  if (status != CL_SUCCESS || !image) return s.reply(h, status ? status : CL_OUT_OF_RESOURCES);
  u64 here = image_number(image, CL_IMAGE_ELEMENT_SIZE);
  if (here == 0 || (element != 0 && element != here)) {
    release_handle(Kind::Mem, image);
    return s.reply(h, CL_IMAGE_FORMAT_NOT_SUPPORTED);
  }
  s.objects.put(Kind::Mem, h.made, image);
  s.reply(h, CL_SUCCESS, view(&here, sizeof here));
}

void transfer_image(Server &s, const CommandHeader &h, Reader r) {
  auto queue = s.objects.get<cl_command_queue>(Kind::Queue, r.get<u64>());
  auto image = s.objects.get<cl_mem>(Kind::Mem, r.get<u64>());
  size_t origin[3], region[3];
  for (size_t &v : origin) v = r.get<u64>();
  for (size_t &v : region) v = r.get<u64>();
  u64 staging = r.get<u64>();
  std::optional<u64> bytes = image ? box_bytes(image, region) : std::nullopt;
  std::vector<cl_event> waits;
  Place p = find_place(s, r, staging, bytes.value_or(0), waits);
  cl_event event = nullptr;
  cl_int status = CL_INVALID_VALUE;
  cl_uint n = static_cast<cl_uint>(waits.size());
  const cl_event *list = waits.empty() ? nullptr : waits.data();
  if (!queue || !image || !bytes || !r.ok() || !p.data) {
    // status stays CL_INVALID_VALUE
  } else if (s.objects.found_failed()) {
    status = CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST;
  } else if (static_cast<Op>(h.op) == Op::ReadImage) {
    status =
        ::clEnqueueReadImage(queue, image, CL_FALSE, origin, region, 0, 0, p.data, n, list, &event);
  } else {
    status = ::clEnqueueWriteImage(queue, image, CL_FALSE, origin, region, 0, 0, p.data, n, list,
                                   &event);
  }
  s.enqueued(h, queue, event, status, std::move(p.own));
}

cl_int move_image(cl_command_queue queue, cl_mem image, bool reading, u64 offset, u64 bytes,
                  std::byte *data) {
  std::array<size_t, 3> extent = extent_of(image);
  u64 element = image_number(image, CL_IMAGE_ELEMENT_SIZE);
  std::optional<u64> whole = box_bytes(image, extent.data());
  if (!whole || *whole == 0 || element == 0 || offset > *whole || bytes > *whole - offset ||
      offset % element || bytes % element)
    return CL_INVALID_VALUE;
  u64 at = offset / element, end = at + bytes / element;
  while (at < end) {
    Box b = next_box(extent, at, end - at);
    cl_int status = reading
                        ? ::clEnqueueReadImage(queue, image, CL_TRUE, b.origin.data(),
                                               b.region.data(), 0, 0, data, 0, nullptr, nullptr)
                        : ::clEnqueueWriteImage(queue, image, CL_TRUE, b.origin.data(),
                                                b.region.data(), 0, 0, data, 0, nullptr, nullptr);
    if (status != CL_SUCCESS) return status;
    at += b.elements();
    data += b.elements() * element;
  }
  return CL_SUCCESS;
}

cl_int copy_image_in_two_steps(cl_command_queue queue, cl_mem image, cl_mem buffer,
                               const size_t *origin, const size_t *region, size_t offset, cl_uint n,
                               const cl_event *list, cl_event *event) {
  std::optional<u64> bytes = image && region ? box_bytes(image, region) : std::nullopt;
  if (!bytes) return CL_INVALID_VALUE;
  cl_context context = nullptr;
  ::clGetMemObjectInfo(image, CL_MEM_CONTEXT, sizeof context, &context, nullptr);
  cl_int status = CL_SUCCESS;
  cl_mem between = ::clCreateBuffer(context, CL_MEM_READ_WRITE, *bytes, nullptr, &status);
  if (!between) return status;
  cl_event copied = nullptr;
  status = ::clEnqueueCopyImageToBuffer(queue, image, between, origin, region, 0, n, list, &copied);
  if (status == CL_SUCCESS)
    status = ::clEnqueueCopyBuffer(queue, between, buffer, 0, offset, *bytes, 1, &copied, event);
  release_handle(Kind::Event, copied);
  release_handle(Kind::Mem, between);  // the driver keeps it until the commands have finished
  return status;
}

cl_int image_formats(cl_context context, cl_mem_flags flags, cl_mem_object_type type,
                     Bytes &value) {
  cl_uint n = 0;
  cl_int r = ::clGetSupportedImageFormats(context, flags, type, 0, nullptr, &n);
  if (r != CL_SUCCESS) return r;
  std::vector<cl_image_format> formats(n);
  if (n > 0) r = ::clGetSupportedImageFormats(context, flags, type, n, formats.data(), nullptr);
  ByteView b = view(formats.data(), n * sizeof(cl_image_format));
  value.assign(b.begin(), b.end());
  return r;
}

}  // namespace ckpt::ocl
