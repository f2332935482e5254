// SPDX-License-Identifier: Apache-2.0
//
// Each function on images and samplers in turn: results and immediate errors. The output must be
// the same natively and under ckpt-run.
#include "cl_images.h"

template <class T>
static T image_info(cl_mem m, cl_image_info param) {
  T v{};
  CL(clGetImageInfo(m, param, sizeof v, &v, nullptr));
  return v;
}

static void facts(const Cl &cl) {
  struct {
    const char *name;
    cl_image_desc desc;
  } all[] = {{"1D", describe(CL_MEM_OBJECT_IMAGE1D, 20)},
             {"1D array", describe(CL_MEM_OBJECT_IMAGE1D_ARRAY, 20, 0, 5)},
             {"2D array", describe(CL_MEM_OBJECT_IMAGE2D_ARRAY, 20, 10, 5)},
             {"3D", describe(CL_MEM_OBJECT_IMAGE3D, 20, 10, 5)}};
  for (auto &[name, desc] : all) {
    cl_mem m = make_image(cl, kRgba16, desc);
    cl_mem_object_type type = 0;
    size_t size = 0;
    CL(clGetMemObjectInfo(m, CL_MEM_TYPE, sizeof type, &type, nullptr));
    CL(clGetMemObjectInfo(m, CL_MEM_SIZE, sizeof size, &size, nullptr));
    std::printf("%s: type %x, %zu bytes, element %zu, %zu x %zu x %zu [%zu], pitches %zu %zu\n",
                name, type, size, image_info<size_t>(m, CL_IMAGE_ELEMENT_SIZE),
                image_info<size_t>(m, CL_IMAGE_WIDTH), image_info<size_t>(m, CL_IMAGE_HEIGHT),
                image_info<size_t>(m, CL_IMAGE_DEPTH), image_info<size_t>(m, CL_IMAGE_ARRAY_SIZE),
                image_info<size_t>(m, CL_IMAGE_ROW_PITCH),
                image_info<size_t>(m, CL_IMAGE_SLICE_PITCH));
    cl_image_format f = image_info<cl_image_format>(m, CL_IMAGE_FORMAT);
    std::printf("  %x %x buffer %p\n", f.image_channel_order, f.image_channel_data_type,
                (void *)image_info<cl_mem>(m, CL_IMAGE_BUFFER));
    CL(clReleaseMemObject(m));
  }
  cl_uint n = 0;
  for (cl_mem_object_type type = CL_MEM_OBJECT_BUFFER; type <= CL_MEM_OBJECT_IMAGE1D_BUFFER;
       type++) {
    cl_int r = clGetSupportedImageFormats(cl.context, CL_MEM_READ_WRITE, type, 0, nullptr, &n);
    std::printf("formats of %x: %d %u\n", type, r, r == CL_SUCCESS ? n : 0);
  }
  std::vector<cl_image_format> formats(n);
  CL(clGetSupportedImageFormats(cl.context, CL_MEM_READ_WRITE, CL_MEM_OBJECT_IMAGE1D_BUFFER, n,
                                formats.data(), nullptr));
  for (const cl_image_format &f : formats)
    std::printf(" %x/%x", f.image_channel_order, f.image_channel_data_type);
  size_t width = 0;
  cl_bool has = CL_FALSE;
  CL(clGetDeviceInfo(cl.device, CL_DEVICE_IMAGE_SUPPORT, sizeof has, &has, nullptr));
  CL(clGetDeviceInfo(cl.device, CL_DEVICE_IMAGE2D_MAX_WIDTH, sizeof width, &width, nullptr));
  std::printf("\nimages %u, at most %zu wide\n", has, width);
}

static void transfers(const Cl &cl) {
  cl_mem m = make_image(cl, kRgba8, describe(CL_MEM_OBJECT_IMAGE3D, 20, 10, 5));
  std::vector<unsigned char> a = noise(20 * 10 * 5 * 4, 7), b(64 * 6 * 3, 0xee);
  write_image(cl, m, {20, 10, 5}, a.data());
  // Host memory with gaps between rows and slices, written back to another place.
  Point origin{3, 2, 1}, region{8, 4, 3}, to{12, 6, 2};
  CL(clEnqueueReadImage(cl.queue, m, CL_TRUE, origin.data(), region.data(), 64, 64 * 6, b.data(), 0,
                        nullptr, nullptr));
  EXPECT(b[0] == a[((1 * 10 + 2) * 20 + 3) * 4] && b[32] == 0xee && b[64 * 4] == 0xee);
  EXPECT(b[64 * 6 * 2 + 64 * 3 + 31] == a[((3 * 10 + 5) * 20 + 10) * 4 + 3]);
  cl_event e[2];
  CL(clEnqueueWriteImage(cl.queue, m, CL_FALSE, to.data(), region.data(), 64, 64 * 6, b.data(), 0,
                         nullptr, &e[0]));
  CL(clEnqueueReadImage(cl.queue, m, CL_FALSE, to.data(), region.data(), 0, 0, b.data(), 1, e,
                        &e[1]));
  CL(clWaitForEvents(1, &e[1]));
  EXPECT(b[0] == a[((1 * 10 + 2) * 20 + 3) * 4]);
  EXPECT(b[8 * 4 * 3 * 4 - 1] == a[((3 * 10 + 5) * 20 + 10) * 4 + 3]);
  for (cl_event x : e) {
    cl_command_type type = 0;
    CL(clGetEventInfo(x, CL_EVENT_COMMAND_TYPE, sizeof type, &type, nullptr));
    std::printf("command %x\n", type);
  }
  // The layers of a 1D array lie a slice pitch apart.
  cl_mem layers = make_image(cl, kRgba8, describe(CL_MEM_OBJECT_IMAGE1D_ARRAY, 20, 0, 5));
  write_image(cl, layers, {20, 5, 1}, a.data());
  Point first{2, 1, 0}, part{4, 3, 1};
  CL(clEnqueueReadImage(cl.queue, layers, CL_TRUE, first.data(), part.data(), 0, 0, b.data(), 0,
                        nullptr, nullptr));
  EXPECT(b[0] == a[(20 + 2) * 4] && b[16] == a[(40 + 2) * 4] && b[47] == a[(60 + 5) * 4 + 3]);
}

// A transfer of several pieces, some of which end in the middle of a slice.
static void large(const Cl &cl) {
  Point extent{701, 300, 9};
  cl_mem m = make_image(cl, kRgba8, describe(CL_MEM_OBJECT_IMAGE3D, 701, 300, 9));
  std::vector<unsigned char> a = noise(extent[0] * extent[1] * extent[2] * 4, 4), b(a.size());
  write_image(cl, m, extent, a.data());
  EXPECT(read_image(cl, m, extent, 4) == a);
  Point zero{0, 0, 0};
  cl_event e;
  CL(clEnqueueReadImage(cl.queue, m, CL_FALSE, zero.data(), extent.data(), 0, 0, b.data(), 0,
                        nullptr, &e));
  CL(clWaitForEvents(1, &e));
  EXPECT(a == b);
}

static void copies(const Cl &cl) {
  cl_mem a = make_image(cl, kRgba8, describe(CL_MEM_OBJECT_IMAGE2D, 20, 10));
  cl_mem b = make_image(cl, kRgba8, describe(CL_MEM_OBJECT_IMAGE2D, 20, 10));
  cl_uint color[4] = {1, 2, 3, 250};
  Point zero{0, 0, 0}, all{20, 10, 1}, origin{5, 5, 0}, region{4, 3, 1};
  CL(clEnqueueFillImage(cl.queue, a, color, zero.data(), all.data(), 0, nullptr, nullptr));
  color[0] = 77;
  CL(clEnqueueFillImage(cl.queue, a, color, origin.data(), region.data(), 0, nullptr, nullptr));
  Point to{1, 1, 0};
  CL(clEnqueueFillImage(cl.queue, b, color + 1, zero.data(), all.data(), 0, nullptr, nullptr));
  CL(clEnqueueCopyImage(cl.queue, a, b, origin.data(), to.data(), region.data(), 0, nullptr,
                        nullptr));
  cl_mem buffer = cl.buffer(1000);
  CL(clEnqueueCopyImageToBuffer(cl.queue, b, buffer, zero.data(), all.data(), 100, 0, nullptr,
                                nullptr));
  std::vector<unsigned char> got(900);
  CL(clEnqueueReadBuffer(cl.queue, buffer, CL_TRUE, 100, 800, got.data(), 0, nullptr, nullptr));
  EXPECT(got[0] == 2 && got[84] == 77 && got[84 + 80 * 2 + 12] == 77 && got[84 + 16] == 2);
  unsigned char nine = 9;
  CL(clEnqueueFillBuffer(cl.queue, buffer, &nine, 1, 0, 1000, 0, nullptr, nullptr));
  CL(clEnqueueCopyBufferToImage(cl.queue, buffer, b, 60, origin.data(), region.data(), 0, nullptr,
                                nullptr));
  got = read_image(cl, b, {20, 10, 1}, 4);
  EXPECT(got[(5 * 20 + 5) * 4] == 9 && got[(5 * 20 + 9) * 4] == 2 && got[84] == 77);
}

static void maps(const Cl &cl) {
  cl_mem m = make_image(cl, kRgba8, describe(CL_MEM_OBJECT_IMAGE2D_ARRAY, 20, 10, 5));
  std::vector<unsigned char> a = noise(20 * 10 * 5 * 4, 9);
  write_image(cl, m, {20, 10, 5}, a.data());
  cl_int status;
  size_t row = 0, slice = 0;
  Point origin{3, 2, 1}, region{8, 4, 3};
  cl_event e;
  auto *p =
      (unsigned char *)clEnqueueMapImage(cl.queue, m, CL_FALSE, CL_MAP_READ, origin.data(),
                                         region.data(), &row, &slice, 0, nullptr, &e, &status);
  CL(status);
  CL(clWaitForEvents(1, &e));
  cl_uint count = 0;
  CL(clGetMemObjectInfo(m, CL_MEM_MAP_COUNT, sizeof count, &count, nullptr));
  std::printf("map: pitches %zu %zu, %u maps\n", row, slice, count);
  EXPECT(p[0] == a[((10 + 2) * 20 + 3) * 4] &&
         p[2 * slice + 3 * row + 31] == a[((30 + 5) * 20 + 10) * 4 + 3]);
  CL(clEnqueueUnmapMemObject(cl.queue, m, p, 0, nullptr, nullptr));
  p = (unsigned char *)clEnqueueMapImage(cl.queue, m, CL_TRUE, CL_MAP_WRITE_INVALIDATE_REGION,
                                         origin.data(), region.data(), &row, &slice, 0, nullptr,
                                         nullptr, &status);
  CL(status);
  for (size_t z = 0; z < 3; z++)
    for (size_t y = 0; y < 4; y++) std::memset(p + z * slice + y * row, 5, 32);
  CL(clEnqueueUnmapMemObject(cl.queue, m, p, 0, nullptr, nullptr));
  std::vector<unsigned char> got = read_image(cl, m, {20, 10, 5}, 4);
  EXPECT(got[((10 + 2) * 20 + 3) * 4] == 5 && got[((30 + 5) * 20 + 10) * 4 + 3] == 5);
  EXPECT(got[((10 + 2) * 20 + 2) * 4] == a[((10 + 2) * 20 + 2) * 4]);
  // A map for writing only: unwritten bytes keep their values.
  p = (unsigned char *)clEnqueueMapImage(cl.queue, m, CL_TRUE, CL_MAP_WRITE, origin.data(),
                                         region.data(), &row, &slice, 0, nullptr, nullptr, &status);
  CL(status);
  p[row] = 6;
  CL(clEnqueueUnmapMemObject(cl.queue, m, p, 0, nullptr, nullptr));
  got = read_image(cl, m, {8, 4, 1}, 4, origin);
  EXPECT(got[32] == 6 && got[33] == 5 && got[0] == 5);
  EXPECT(clEnqueueUnmapMemObject(cl.queue, m, &row, 0, nullptr, nullptr) == CL_INVALID_VALUE);
}

static cl_int create(const Cl &cl, const cl_image_format *f, const cl_image_desc *desc,
                     void *host = nullptr, cl_mem_flags flags = CL_MEM_READ_WRITE) {
  cl_int status;
  clCreateImage(cl.context, flags, f, desc, host, &status);
  return status;
}

static cl_int read_at(const Cl &cl, cl_mem from, Point at, Point region, size_t row = 0) {
  unsigned char host[4000];
  return clEnqueueReadImage(cl.queue, from, CL_TRUE, at.data(), region.data(), row, 0, host, 0,
                            nullptr, nullptr);
}

static void errors(const Cl &cl) {
  cl_image_desc d = describe(CL_MEM_OBJECT_IMAGE2D, 20, 10);
  cl_image_format bad = {CL_RGBA, 0x1234};
  EXPECT(create(cl, nullptr, &d) == CL_INVALID_IMAGE_FORMAT_DESCRIPTOR);
  EXPECT(create(cl, &kRgba8, nullptr) == CL_INVALID_IMAGE_DESCRIPTOR);
  EXPECT(create(cl, &bad, &d) < 0);
  d.image_width = 0;
  EXPECT(create(cl, &kRgba8, &d) < 0);
  d.image_width = (size_t)1 << 24;
  std::printf("too wide %d\n", create(cl, &kRgba8, &d));
  d = describe(CL_MEM_OBJECT_IMAGE1D_BUFFER, 20);
  EXPECT(create(cl, &kRgba8, &d) < 0);
  cl_mem m = make_image(cl, kRgba8, describe(CL_MEM_OBJECT_IMAGE2D, 20, 10));
  cl_mem buffer = cl.buffer(4000);
  std::printf("reads: %d %d %d %d\n", read_at(cl, m, {0, 0, 0}, {21, 1, 1}),
              read_at(cl, m, {20, 0, 0}, {1, 1, 1}), read_at(cl, m, {0, 0, 0}, {1, 1, 2}),
              read_at(cl, buffer, {0, 0, 0}, {1, 1, 1}));
  cl_mem other = make_image(cl, kRgba16, describe(CL_MEM_OBJECT_IMAGE2D, 20, 10));
  Point zero{0, 0, 0}, one{1, 1, 1};
  std::printf("copies: %d %d\n",
              clEnqueueCopyImage(cl.queue, m, other, zero.data(), zero.data(), one.data(), 0,
                                 nullptr, nullptr),
              clEnqueueCopyImage(cl.queue, m, m, zero.data(), zero.data(), one.data(), 0, nullptr,
                                 nullptr));
  size_t size = 0;
  std::printf("info: %d\n", clGetImageInfo(m, 0x9999, sizeof size, &size, nullptr));
}

// Errors of the specification that some drivers do not report.
static void strict_errors(const Cl &cl) {
  std::vector<unsigned char> host(4000);
  cl_image_desc d = describe(CL_MEM_OBJECT_IMAGE2D, 20, 10);
  EXPECT(create(cl, &kRgba8, &d, host.data()) == CL_INVALID_HOST_PTR);
  d.image_row_pitch = 80;
  EXPECT(create(cl, &kRgba8, &d) == CL_INVALID_IMAGE_DESCRIPTOR);
  d.image_row_pitch = 79;
  EXPECT(create(cl, &kRgba8, &d, host.data(), CL_MEM_COPY_HOST_PTR) == CL_INVALID_IMAGE_DESCRIPTOR);
  cl_mem m = make_image(cl, kRgba8, describe(CL_MEM_OBJECT_IMAGE2D, 20, 10));
  EXPECT(read_at(cl, m, {0, 0, 0}, {8, 1, 1}, 31) == CL_INVALID_VALUE);
  EXPECT(clEnqueueReadBuffer(cl.queue, m, CL_TRUE, 0, 4, host.data(), 0, nullptr, nullptr) ==
         CL_INVALID_MEM_OBJECT);
  cl_mem buffer = cl.buffer(64);
  size_t size = 0;
  EXPECT(clGetImageInfo(buffer, CL_IMAGE_WIDTH, sizeof size, &size, nullptr) ==
         CL_INVALID_MEM_OBJECT);
}

static void samplers(const Cl &cl) {
  cl_int status;
  cl_sampler s = clCreateSampler(cl.context, CL_TRUE, CL_ADDRESS_REPEAT, CL_FILTER_LINEAR, &status);
  CL(status);
  CL(clRetainSampler(s));
  cl_uint count = 0;
  cl_bool normalized = 0;
  cl_addressing_mode addressing = 0;
  cl_filter_mode filter = 0;
  cl_context context = nullptr;
  CL(clGetSamplerInfo(s, CL_SAMPLER_REFERENCE_COUNT, sizeof count, &count, nullptr));
  CL(clGetSamplerInfo(s, CL_SAMPLER_NORMALIZED_COORDS, sizeof normalized, &normalized, nullptr));
  CL(clGetSamplerInfo(s, CL_SAMPLER_ADDRESSING_MODE, sizeof addressing, &addressing, nullptr));
  CL(clGetSamplerInfo(s, CL_SAMPLER_FILTER_MODE, sizeof filter, &filter, nullptr));
  CL(clGetSamplerInfo(s, CL_SAMPLER_CONTEXT, sizeof context, &context, nullptr));
  EXPECT(context == cl.context);
  std::printf("sampler: %u references, %u %x %x\n", count, normalized, addressing, filter);
  CL(clReleaseSampler(s));
  cl_kernel k = cl.kernel(
      cl.build("__kernel void f(__read_only image2d_t i, sampler_t s, __global float4 *o) {"
               "  o[0] = read_imagef(i, s, (float2)(1.25f, 0.5f)); }"),
      "f");
  cl_mem m = make_image(cl, kRgbaFloat, describe(CL_MEM_OBJECT_IMAGE2D, 2, 1));
  float pixels[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  write_image(cl, m, {2, 1, 1}, pixels);
  cl_mem out = cl.buffer(16);
  int number = 5;
  std::printf("no sampler: %d\n", clSetKernelArg(k, 1, sizeof number, &number) < 0);
  CL(clSetKernelArg(k, 0, sizeof m, &m));
  CL(clSetKernelArg(k, 1, sizeof s, &s));
  CL(clSetKernelArg(k, 2, sizeof out, &out));
  CL(clEnqueueTask(cl.queue, k, 0, nullptr, nullptr));
  float got[4];
  CL(clEnqueueReadBuffer(cl.queue, out, CL_TRUE, 0, 16, got, 0, nullptr, nullptr));
  EXPECT(got[0] == 1 && got[3] == 4);  // 1.25 repeats to 0.25: the middle of the first pixel
  CL(clReleaseSampler(s));
}

// Any argument skips the output that depends on the implementation. `strict` adds errors that only
// ckpt-run reports.
int main(int argc, char **argv) {
  Cl cl;
  if (argc == 1) facts(cl);
  if (argc > 1 && std::string(argv[1]) == "strict") strict_errors(cl);
  transfers(cl);
  large(cl);
  copies(cl);
  maps(cl);
  errors(cl);
  samplers(cl);
  return finish();
}
