// SPDX-License-Identifier: Apache-2.0
//
// Images of every type and samplers, in every state that must survive a checkpoint: created before
// READY, used after it.
#include "cl_images.h"

static const char *kSource = R"(
__kernel void mirror(__read_only image2d_t from, __write_only image2d_t to, sampler_t s, int add) {
  int2 p = (int2)(get_global_id(0), get_global_id(1));
  int2 q = (int2)(get_image_width(from) - 1 - p.x, p.y);
  write_imageui(to, p, read_imageui(from, s, q) + (uint4)(add));
}
__kernel void outside(__read_only image2d_t from, sampler_t s, __global uint *out) {
  uint4 v = read_imageui(from, s, (int2)(-3, 5));
  out[0] = v.x; out[1] = v.y; out[2] = v.z; out[3] = v.w;
}
)";

// An image with known contents.
struct Kept {
  cl_mem image;
  Point extent;
  size_t element;
  std::vector<unsigned char> contents;

  Kept(const Cl &cl, const cl_image_format &format, size_t element, const cl_image_desc &desc,
       Point extent)
      : image(make_image(cl, format, desc)), extent(extent), element(element) {
    contents = noise(extent[0] * extent[1] * extent[2] * element, desc.image_type);
    write_image(cl, image, extent, contents.data());
  }
  bool unchanged(const Cl &cl) const { return read_image(cl, image, extent, element) == contents; }
};

// The sizes make pieces of a checkpoint end in the middle of rows and slices.
static std::vector<Kept> every_type(const Cl &cl) {
  std::vector<Kept> all;
  all.emplace_back(cl, kRgba8, 4, describe(CL_MEM_OBJECT_IMAGE1D, 777), Point{777, 1, 1});
  all.emplace_back(cl, kRgba16, 8, describe(CL_MEM_OBJECT_IMAGE1D_ARRAY, 333, 0, 7),
                   Point{333, 7, 1});
  all.emplace_back(cl, kRgba8, 4, describe(CL_MEM_OBJECT_IMAGE2D, 1003, 517), Point{1003, 517, 1});
  all.emplace_back(cl, kRgbaFloat, 16, describe(CL_MEM_OBJECT_IMAGE2D_ARRAY, 61, 47, 9),
                   Point{61, 47, 9});
  all.emplace_back(cl, kRgba8, 4, describe(CL_MEM_OBJECT_IMAGE3D, 101, 67, 43), Point{101, 67, 43});
  return all;
}

static cl_sampler sampler(const Cl &cl, cl_addressing_mode addressing) {
  cl_int status;
  cl_sampler s = clCreateSampler(cl.context, CL_FALSE, addressing, CL_FILTER_NEAREST, &status);
  CL(status);
  return s;
}

int main() {
  constexpr size_t w = 40, h = 24;
  Cl cl;
  cl_int status;
  std::vector<Kept> all = every_type(cl);

  // Images from host memory with gaps: copied, and used in place.
  constexpr size_t pitch = 256;
  std::vector<unsigned char> host = noise(pitch * h, 1), used = noise(pitch * h, 2);
  std::vector<unsigned char> used_before = used;
  cl_image_desc flat = describe(CL_MEM_OBJECT_IMAGE2D, w, h);
  flat.image_row_pitch = pitch;
  cl_mem copied =
      make_image(cl, kRgba8, flat, CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR, host.data());
  cl_mem in_place = make_image(cl, kRgba8, flat, CL_MEM_USE_HOST_PTR, used.data());
  flat.image_row_pitch = 0;
  cl_mem target = make_image(cl, kRgba8, flat, CL_MEM_ALLOC_HOST_PTR);

  // An image from a buffer that only the image keeps alive.
  std::vector<unsigned char> bytes = noise(4 * 300, 3);
  cl_mem buffer = cl.buffer(bytes.size(), CL_MEM_COPY_HOST_PTR, bytes.data());
  cl_image_desc line = describe(CL_MEM_OBJECT_IMAGE1D_BUFFER, 300);
  line.buffer = buffer;
  cl_mem of_buffer = make_image(cl, kRgba8, line);
  CL(clReleaseMemObject(buffer));

  // Arguments that stay set during the checkpoint; the application releases one of the samplers.
  cl_program program = cl.build(kSource);
  cl_kernel mirror = cl.kernel(program, "mirror"), outside = cl.kernel(program, "outside");
  cl_sampler clamp = sampler(cl, CL_ADDRESS_CLAMP), edge = sampler(cl, CL_ADDRESS_CLAMP_TO_EDGE);
  int add = 1;
  CL(clSetKernelArg(mirror, 0, sizeof copied, &copied));
  CL(clSetKernelArg(mirror, 1, sizeof target, &target));
  CL(clSetKernelArg(mirror, 2, sizeof clamp, &clamp));
  CL(clSetKernelArg(mirror, 3, sizeof add, &add));
  cl_mem out = cl.buffer(16);
  CL(clSetKernelArg(outside, 0, sizeof copied, &copied));
  CL(clSetKernelArg(outside, 1, sizeof edge, &edge));
  CL(clSetKernelArg(outside, 2, sizeof out, &out));
  CL(clReleaseSampler(edge));

  // A map of a part of a 3D image that stays open during the checkpoint.
  Point origin{10, 20, 5}, region{30, 10, 3};
  size_t row = 0, slice = 0;
  auto *mapped = (unsigned char *)clEnqueueMapImage(
      cl.queue, all[4].image, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, origin.data(), region.data(),
      &row, &slice, 0, nullptr, nullptr, &status);
  CL(status);
  auto at = [&](size_t x, size_t y, size_t z) -> size_t { return ((z * 67 + y) * 101 + x) * 4; };
  EXPECT(mapped[0] == all[4].contents[at(10, 20, 5)]);
  EXPECT(mapped[2 * slice + 9 * row + 29 * 4] == all[4].contents[at(39, 29, 7)]);
  mapped[slice + 3 * row + 8] ^= 0xff;
  all[4].contents[at(12, 23, 6)] ^= 0xff;

  pause_here();

  mapped[2 * slice + 9 * row + 29 * 4] ^= 0x0f;
  all[4].contents[at(39, 29, 7)] ^= 0x0f;
  CL(clEnqueueUnmapMemObject(cl.queue, all[4].image, mapped, 0, nullptr, nullptr));
  for (const Kept &k : all) EXPECT(k.unchanged(cl));
  EXPECT(read_image(cl, of_buffer, {300, 1, 1}, 4) == bytes);
  std::vector<unsigned char> rows = read_image(cl, in_place, {w, h, 1}, 4);
  for (size_t y = 0; y < h; y++)
    EXPECT(std::memcmp(&rows[y * w * 4], &used_before[y * pitch], w * 4) == 0);

  // The arguments that were set before the checkpoint.
  size_t global[2] = {w, h};
  CL(clEnqueueNDRangeKernel(cl.queue, mirror, 2, nullptr, global, nullptr, 0, nullptr, nullptr));
  rows = read_image(cl, target, {w, h, 1}, 4);
  size_t same = 0;
  for (size_t y = 0; y < h; y++)
    for (size_t x = 0; x < w; x++)
      for (size_t c = 0; c < 4; c++) {
        int from = host[y * pitch + (w - 1 - x) * 4 + c] + 1;
        same += rows[(y * w + x) * 4 + c] == std::min(from, 255);
      }
  EXPECT(same == w * h * 4);
  CL(clEnqueueTask(cl.queue, outside, 0, nullptr, nullptr));
  std::vector<int> edge_value = cl.read_ints(out, 4);
  EXPECT(edge_value[0] == host[5 * pitch] && edge_value[3] == host[5 * pitch + 3]);

  // A map of an image with CL_MEM_USE_HOST_PTR shows the host's own memory, with its pitch.
  write_image(cl, in_place, {2, 1, 1}, "\1\2\3\4\5\6\7", {3, 4, 0});
  Point zero{0, 0, 0}, whole{w, h, 1};
  void *seen = clEnqueueMapImage(cl.queue, in_place, CL_TRUE, CL_MAP_READ, zero.data(),
                                 whole.data(), &row, nullptr, 0, nullptr, nullptr, &status);
  CL(status);
  EXPECT(seen == used.data() && row == pitch);
  EXPECT(used[4 * pitch + 12] == 1 && used[4 * pitch + 18] == 7);
  EXPECT(used[pitch + w * 4] == used_before[pitch + w * 4]);  // the gap belongs to the application
  CL(clEnqueueUnmapMemObject(cl.queue, in_place, seen, 0, nullptr, nullptr));

  // Parts of the image from a buffer are copied to other images and buffers, and back.
  cl_mem other = make_image(cl, kRgba8, describe(CL_MEM_OBJECT_IMAGE1D, 300));
  cl_mem flat_copy = cl.buffer(400);
  Point part{100, 1, 1}, half{50, 1, 1}, from{50, 0, 0}, to{150, 0, 0}, last{200, 0, 0};
  CL(clEnqueueCopyImage(cl.queue, of_buffer, other, from.data(), to.data(), part.data(), 0, nullptr,
                        nullptr));
  CL(clEnqueueCopyImageToBuffer(cl.queue, of_buffer, flat_copy, from.data(), part.data(), 0, 0,
                                nullptr, nullptr));
  CL(clEnqueueCopyImage(cl.queue, other, of_buffer, to.data(), last.data(), part.data(), 0, nullptr,
                        nullptr));
  CL(clEnqueueCopyBufferToImage(cl.queue, flat_copy, of_buffer, 0, zero.data(), part.data(), 0,
                                nullptr, nullptr));
  CL(clEnqueueCopyImage(cl.queue, of_buffer, of_buffer, zero.data(), to.data(), half.data(), 0,
                        nullptr, nullptr));
  std::vector<unsigned char> line_now = read_image(cl, of_buffer, {300, 1, 1}, 4);
  EXPECT(std::memcmp(&line_now[0], &bytes[200], 400) == 0);
  EXPECT(std::memcmp(&line_now[800], &bytes[200], 400) == 0);
  EXPECT(std::memcmp(&line_now[600], &bytes[200], 200) == 0);

  // A write to the image writes to its buffer.
  cl_mem behind = nullptr;
  CL(clGetImageInfo(of_buffer, CL_IMAGE_BUFFER, sizeof behind, &behind, nullptr));
  write_image(cl, of_buffer, {1, 1, 1}, "abcd", {7, 0, 0});
  char four[5] = "";
  CL(clEnqueueReadBuffer(cl.queue, behind, CL_TRUE, 28, 4, four, 0, nullptr, nullptr));
  EXPECT(std::string(four) == "abcd");
  return finish();
}
