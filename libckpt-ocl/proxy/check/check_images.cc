// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/proxy/check/check_images.h"

#include <fmt/format.h>

#include "common/base/json_fields.h"
#include "libckpt-ocl/proxy/serve/images.h"

namespace ckpt::ocl {
namespace {

using nlohmann::json;

struct ImageRequirement {
  cl_mem_object_type type;
  cl_image_format format;
  cl_mem_flags access;
  u64 width, height, depth, layers;
  u64 row_pitch;  // of a 2D image from a buffer; else 0

  explicit ImageRequirement(const json &j)
      : type(json_value<u32>(j, "type", 0)),
        format{json_value<u32>(j, "order", 0), json_value<u32>(j, "channel", 0)},
        access(json_value<u64>(j, "access", 0)),
        width(json_value<u64>(j, "width", 0)),
        height(json_value<u64>(j, "height", 0)),
        depth(json_value<u64>(j, "depth", 0)),
        layers(json_value<u64>(j, "layers", 0)),
        row_pitch(json_value<u64>(j, "row_pitch", 0)) {}
};

const char *type_name(cl_mem_object_type type) {
  switch (type) {
    case CL_MEM_OBJECT_IMAGE1D: return "1D image";
    case CL_MEM_OBJECT_IMAGE1D_ARRAY: return "1D image array";
    case CL_MEM_OBJECT_IMAGE1D_BUFFER: return "1D image from a buffer";
    case CL_MEM_OBJECT_IMAGE2D: return "2D image";
    case CL_MEM_OBJECT_IMAGE2D_ARRAY: return "2D image array";
    case CL_MEM_OBJECT_IMAGE3D: return "3D image";
    default: return "image of an unknown type";
  }
}

// The constants are consecutive from CL_R and CL_SNORM_INT8 on (CL/cl.h).
std::string format_name(const cl_image_format &f) {
  static constexpr const char *kOrders[] = {
      "CL_R",    "CL_A",     "CL_RG",    "CL_RA",        "CL_RGB",
      "CL_RGBA", "CL_BGRA",  "CL_ARGB",  "CL_INTENSITY", "CL_LUMINANCE",
      "CL_Rx",   "CL_RGx",   "CL_RGBx",  "CL_DEPTH",     "CL_DEPTH_STENCIL",
      "CL_sRGB", "CL_sRGBx", "CL_sRGBA", "CL_sBGRA",     "CL_ABGR"};
  static constexpr const char *kChannels[] = {
      "CL_SNORM_INT8",       "CL_SNORM_INT16",       "CL_UNORM_INT8",
      "CL_UNORM_INT16",      "CL_UNORM_SHORT_565",   "CL_UNORM_SHORT_555",
      "CL_UNORM_INT_101010", "CL_SIGNED_INT8",       "CL_SIGNED_INT16",
      "CL_SIGNED_INT32",     "CL_UNSIGNED_INT8",     "CL_UNSIGNED_INT16",
      "CL_UNSIGNED_INT32",   "CL_HALF_FLOAT",        "CL_FLOAT",
      "CL_UNORM_INT24",      "CL_UNORM_INT_101010_2"};
  u32 order = f.image_channel_order - CL_R, channel = f.image_channel_data_type - CL_SNORM_INT8;
  return fmt::format("{} {}", order < std::size(kOrders) ? kOrders[order] : "an unknown order of",
                     channel < std::size(kChannels) ? kChannels[channel] : "unknown channels");
}

struct Size {
  u64 required;
  cl_device_info param;
  const char *name;
};

std::vector<Size> sizes_of(const ImageRequirement &w) {
#define SIZE(required, param) \
  { required, param, #param }
  switch (w.type) {
    case CL_MEM_OBJECT_IMAGE1D: return {SIZE(w.width, CL_DEVICE_IMAGE2D_MAX_WIDTH)};
    case CL_MEM_OBJECT_IMAGE1D_ARRAY:
      return {SIZE(w.width, CL_DEVICE_IMAGE2D_MAX_WIDTH),
              SIZE(w.layers, CL_DEVICE_IMAGE_MAX_ARRAY_SIZE)};
    case CL_MEM_OBJECT_IMAGE1D_BUFFER: return {SIZE(w.width, CL_DEVICE_IMAGE_MAX_BUFFER_SIZE)};
    case CL_MEM_OBJECT_IMAGE2D:
      return {SIZE(w.width, CL_DEVICE_IMAGE2D_MAX_WIDTH),
              SIZE(w.height, CL_DEVICE_IMAGE2D_MAX_HEIGHT)};
    case CL_MEM_OBJECT_IMAGE2D_ARRAY:
      return {SIZE(w.width, CL_DEVICE_IMAGE2D_MAX_WIDTH),
              SIZE(w.height, CL_DEVICE_IMAGE2D_MAX_HEIGHT),
              SIZE(w.layers, CL_DEVICE_IMAGE_MAX_ARRAY_SIZE)};
    case CL_MEM_OBJECT_IMAGE3D:
      return {SIZE(w.width, CL_DEVICE_IMAGE3D_MAX_WIDTH),
              SIZE(w.height, CL_DEVICE_IMAGE3D_MAX_HEIGHT),
              SIZE(w.depth, CL_DEVICE_IMAGE3D_MAX_DEPTH)};
    default: return {};
  }
#undef SIZE
}

bool supports_format(cl_context context, const ImageRequirement &w) {
  Bytes formats;
  if (image_formats(context, w.access, w.type, formats) != CL_SUCCESS) return false;
  for (size_t at = 0; at < formats.size(); at += sizeof w.format)
    if (std::memcmp(formats.data() + at, &w.format, sizeof w.format) == 0) return true;
  return false;
}

void check_image(const RealDevice &device, cl_context context, const ImageRequirement &w,
                 std::vector<std::string> &reasons) {
  if (!supports_format(context, w))
    reasons.push_back(fmt::format("the program has a {} of {}, which \"{}\" does not support",
                                  type_name(w.type), format_name(w.format), device.name));
  for (const Size &s : sizes_of(w)) {
    u64 most = device_number(device.id, s.param);
    if (s.required > most)
      reasons.push_back(
          fmt::format("the program has a {} of size {}; \"{}\" supports at most {} ({})",
                      type_name(w.type), s.required, device.name, most, s.name));
  }
  if (w.row_pitch == 0) return;
  u64 alignment = device_number(device.id, CL_DEVICE_IMAGE_PITCH_ALIGNMENT);  // in pixels
  if (alignment == 0)
    reasons.push_back(fmt::format(
        "the program has a 2D image from a buffer, which \"{}\" does not support", device.name));
}

}  // namespace

void check_images(const RealDevice &device, const json &images, std::vector<std::string> &reasons) {
  if (images.empty()) return;
  if (!device_number(device.id, CL_DEVICE_IMAGE_SUPPORT))
    return reasons.push_back(
        fmt::format("the program has images; \"{}\" does not support images", device.name));
  cl_int status;
  cl_context context = ::clCreateContext(nullptr, 1, &device.id, nullptr, nullptr, &status);
  if (!context)
    return reasons.push_back(
        fmt::format("\"{}\" cannot be used: OpenCL error {}", device.name, status));
  for (const json &j : images) check_image(device, context, ImageRequirement(j), reasons);
  release_handle(Kind::Context, context);
}

}  // namespace ckpt::ocl
