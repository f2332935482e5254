// SPDX-License-Identifier: Apache-2.0
//
// Helpers of the test programs on images.
#pragma once

#include <array>

#include "cl_test.h"

using Point = std::array<size_t, 3>;

constexpr cl_image_format kRgba8{CL_RGBA, CL_UNSIGNED_INT8};
constexpr cl_image_format kRgba16{CL_RGBA, CL_UNSIGNED_INT16};
constexpr cl_image_format kRgbaFloat{CL_RGBA, CL_FLOAT};

inline cl_image_desc describe(cl_mem_object_type type, size_t width, size_t height = 0,
                              size_t depth_or_layers = 0) {
  cl_image_desc d;
  std::memset(&d, 0, sizeof d);
  d.image_type = type;
  d.image_width = width;
  d.image_height = height;
  if (type == CL_MEM_OBJECT_IMAGE3D)
    d.image_depth = depth_or_layers;
  else
    d.image_array_size = depth_or_layers;
  return d;
}

// Pseudo-random bytes.
inline std::vector<unsigned char> noise(size_t bytes, unsigned seed) {
  std::vector<unsigned char> v(bytes);
  unsigned x = seed * 2654435761u + 1;
  for (unsigned char &b : v) {
    x = x * 1664525u + 1013904223u;
    b = (unsigned char)(x >> 24);
  }
  return v;
}

inline cl_mem make_image(const Cl &cl, const cl_image_format &format, const cl_image_desc &desc,
                         cl_mem_flags flags = CL_MEM_READ_WRITE, void *host = nullptr) {
  cl_int status;
  cl_mem m = clCreateImage(cl.context, flags, &format, &desc, host, &status);
  CL(status);
  return m;
}

inline void write_image(const Cl &cl, cl_mem image, Point region, const void *data,
                        Point origin = {0, 0, 0}) {
  CL(clEnqueueWriteImage(cl.queue, image, CL_TRUE, origin.data(), region.data(), 0, 0, data, 0,
                         nullptr, nullptr));
}

inline std::vector<unsigned char> read_image(const Cl &cl, cl_mem image, Point region,
                                             size_t element, Point origin = {0, 0, 0}) {
  std::vector<unsigned char> v(region[0] * region[1] * region[2] * element);
  CL(clEnqueueReadImage(cl.queue, image, CL_TRUE, origin.data(), region.data(), 0, 0, v.data(), 0,
                        nullptr, nullptr));
  return v;
}
