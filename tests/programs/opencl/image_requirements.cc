// SPDX-License-Identifier: Apache-2.0
//
// A program with an image that not every device supports: `format` (CL_A) or `size WIDTH`. With
// `limit` it has only read the largest width.
#include "cl_images.h"

int main(int, char **argv) {
  Cl cl;
  std::string what = argv[1] ? argv[1] : "";
  cl_mem m = nullptr;
  size_t widest = 0;
  cl_image_format alpha{CL_A, CL_UNSIGNED_INT8};
  Point extent{16, 16, 1};
  if (what == "format") m = make_image(cl, alpha, describe(CL_MEM_OBJECT_IMAGE2D, 16, 16));
  if (what == "size" && argv[2]) {
    extent = {std::strtoul(argv[2], nullptr, 10), 2, 1};
    m = make_image(cl, kRgba8, describe(CL_MEM_OBJECT_IMAGE2D, extent[0], extent[1]));
  }
  if (what == "limit") {
    cl_uint formats = 0;
    CL(clGetDeviceInfo(cl.device, CL_DEVICE_IMAGE2D_MAX_WIDTH, sizeof widest, &widest, nullptr));
    CL(clGetSupportedImageFormats(cl.context, CL_MEM_READ_WRITE, CL_MEM_OBJECT_IMAGE2D, 0, nullptr,
                                  &formats));
    std::printf("%zu wide, %u formats\n", widest, formats);
  }
  size_t element = what == "format" ? 1 : 4;
  std::vector<unsigned char> data = noise(extent[0] * extent[1] * element, 1);
  if (m) write_image(cl, m, extent, data.data());
  pause_here();
  if (m) EXPECT(read_image(cl, m, extent, element) == data);
  return finish();
}
