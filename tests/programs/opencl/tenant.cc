// SPDX-License-Identifier: Apache-2.0
//
// A program that shares its device with others, like tests/programs/cuda/tenant.cu. `tenant NAME
// WORD…` allocates one piece of memory after the other, writes into each, and checks all of them at
// the end. A word is MIB (a buffer of that many MiB), or one of
//
//   iMIB   an image            sMIB   buffers of 64 KiB each      hMIB   with CL_MEM_USE_HOST_PTR
//   pMIB   a sub-buffer of MIB in the last piece, without memory of its own
//   -      releases the last piece
//
// Prints "have WORD" after each word, or "denied WORD" if the allocation failed. Waits before word
// 1, 2, … and before the end while the file NAME-1, NAME-2, …, NAME-end exists, and makes no OpenCL
// call meanwhile. If NAME begins with "fp64", the program uses double precision.
#include "cl_test.h"

static const char *kSource =
    "__kernel void mark(__global uint *p, uint seed) {\n"
    "  size_t i = get_global_id(0); p[i * 1024] = seed * 2654435761u + (uint)i; }\n"
    "__kernel void count(__global const uint *p, uint seed, __global int *good) {\n"
    "  size_t i = get_global_id(0);\n"
    "  if (p[i * 1024] == seed * 2654435761u + (uint)i) atomic_inc(good); }\n"
    "__kernel void paint(__write_only image2d_t m, uint seed) {\n"
    "  write_imageui(m, (int2)(get_global_id(0), get_global_id(1)), (uint4)(seed & 255, "
    "get_global_id(1) & 255, 3, 4)); }\n";
static const char *kDoubles =
    "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n"
    "__kernel void twice(__global double *p) { p[get_global_id(0)] *= 2.0; }\n";

// One word in every kStride bytes is written and checked.
static constexpr size_t kStride = 4 << 10, kSmall = 64 << 10, kRow = 1024;

struct Piece {
  std::vector<cl_mem> mems;
  size_t bytes = 0;  // of each
  bool image = false;
  void *host = nullptr;
  cl_uint seed = 0;
};

static void wait_for_file(const std::string &name, const std::string &where) {
  while (::access((name + "-" + where).c_str(), F_OK) == 0) ::usleep(2000);
}

static void say(const std::string &what) {
  std::printf("%s\n", what.c_str());
  std::fflush(stdout);
}

static cl_mem make_image(const Cl &cl, size_t mib, cl_int *e) {
  cl_image_format format{CL_RGBA, CL_UNSIGNED_INT8};
  cl_image_desc desc{};
  desc.image_type = CL_MEM_OBJECT_IMAGE2D;
  desc.image_width = kRow;
  desc.image_height = (mib << 20) / 4 / kRow;
  return clCreateImage(cl.context, CL_MEM_READ_WRITE, &format, &desc, nullptr, e);
}

// A sub-buffer takes no device memory, so the Manager must not be asked for it.
static void take_part(const Cl &cl, const Piece &whole, size_t mib) {
  cl_buffer_region region{0, mib << 20};
  cl_int e;
  cl_mem part = clCreateSubBuffer(whole.mems[0], 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &e);
  CL(e);
  (void)cl;
  (void)part;  // never released
}

static cl_int take(const Cl &cl, const std::string &word, Piece &p) {
  cl_int e = CL_SUCCESS;
  bool digit = word[0] >= '0' && word[0] <= '9';
  size_t mib = std::strtoul(word.c_str() + (digit ? 0 : 1), nullptr, 10);
  p.bytes = mib << 20;
  p.image = word[0] == 'i';
  cl_mem_flags flags = CL_MEM_READ_WRITE;
  if (word[0] == 'h') {
    p.host = std::calloc(1, p.bytes);
    flags |= CL_MEM_USE_HOST_PTR;
  }
  if (p.image) {
    p.mems.push_back(make_image(cl, mib, &e));
    return e;
  }
  size_t n = word[0] == 's' ? p.bytes / kSmall : 1;
  p.bytes /= n;
  for (size_t i = 0; i < n && e == CL_SUCCESS; i++)
    p.mems.push_back(clCreateBuffer(cl.context, flags, p.bytes, p.host, &e));
  return e;
}

// A kernel keeps its arguments alive, so each piece has a kernel of its own.
static void write(const Cl &cl, cl_program program, const Piece &p) {
  cl_kernel k = cl.kernel(program, p.image ? "paint" : "mark");
  for (size_t i = 0; i < p.mems.size(); i++) {
    cl_uint seed = p.seed + static_cast<cl_uint>(i);
    size_t size[2] = {p.image ? kRow : p.bytes / kStride, p.image ? p.bytes / 4 / kRow : 1};
    CL(clSetKernelArg(k, 0, sizeof(cl_mem), &p.mems[i]));
    CL(clSetKernelArg(k, 1, sizeof seed, &seed));
    CL(clEnqueueNDRangeKernel(cl.queue, k, 2, nullptr, size, nullptr, 0, nullptr, nullptr));
  }
  CL(clFinish(cl.queue));
  CL(clReleaseKernel(k));
}

static void check_image(const Cl &cl, const Piece &p) {
  size_t origin[3] = {0, 0, 0}, region[3] = {kRow, p.bytes / 4 / kRow, 1};
  std::vector<cl_uchar> back(p.bytes);
  CL(clEnqueueReadImage(cl.queue, p.mems[0], CL_TRUE, origin, region, 0, 0, back.data(), 0, nullptr,
                        nullptr));
  size_t good = 0;
  for (size_t i = 0; i < kRow * region[1]; i++)
    good += back[4 * i] == (p.seed & 0xff) && back[4 * i + 1] == (i / kRow & 0xff);
  EXPECT(good == kRow * region[1]);
}

static void check(const Cl &cl, cl_kernel count, const Piece &p) {
  if (p.image) return check_image(cl, p);
  cl_mem good = cl.buffer(sizeof(cl_int));
  for (size_t i = 0; i < p.mems.size(); i++) {
    cl_uint seed = p.seed + static_cast<cl_uint>(i);
    cl_int zero = 0;
    size_t size = p.bytes / kStride;
    CL(clEnqueueWriteBuffer(cl.queue, good, CL_TRUE, 0, sizeof zero, &zero, 0, nullptr, nullptr));
    CL(clSetKernelArg(count, 0, sizeof(cl_mem), &p.mems[i]));
    CL(clSetKernelArg(count, 1, sizeof seed, &seed));
    CL(clSetKernelArg(count, 2, sizeof good, &good));
    CL(clEnqueueNDRangeKernel(cl.queue, count, 1, nullptr, &size, nullptr, 0, nullptr, nullptr));
    EXPECT(cl.read_ints(good, 1)[0] == static_cast<int>(size));
  }
  CL(clReleaseMemObject(good));
}

static void use_doubles(const Cl &cl) {
  cl_kernel twice = cl.kernel(cl.build(kDoubles), "twice");
  double value = 1.25;
  cl_mem m = cl.buffer(sizeof value, CL_MEM_COPY_HOST_PTR, &value);
  size_t one = 1;
  CL(clSetKernelArg(twice, 0, sizeof m, &m));
  CL(clEnqueueNDRangeKernel(cl.queue, twice, 1, nullptr, &one, nullptr, 0, nullptr, nullptr));
  CL(clEnqueueReadBuffer(cl.queue, m, CL_TRUE, 0, sizeof value, &value, 0, nullptr, nullptr));
  EXPECT(value == 2.5);
}

int main(int, char **argv) {
  std::string name = argv[1];
  Cl cl;
  cl_program program = cl.build(kSource);
  cl_kernel count = cl.kernel(program, "count");
  if (name.rfind("fp64", 0) == 0) use_doubles(cl);
  say("started");
  std::vector<Piece> all;
  for (int i = 2; argv[i]; i++) {
    wait_for_file(name, std::to_string(i - 1));
    std::string word = argv[i];
    if (word == "-") {
      for (cl_mem m : all.back().mems) CL(clReleaseMemObject(m));
      all.pop_back();
    } else if (word[0] == 'p') {
      take_part(cl, all.back(), std::strtoul(word.c_str() + 1, nullptr, 10));
    } else {
      Piece p;
      p.seed = static_cast<cl_uint>(i * 100'000);
      cl_int e = take(cl, word, p);
      if (e == CL_MEM_OBJECT_ALLOCATION_FAILURE) {
        say("denied " + word);
        continue;
      }
      CL(e);
      write(cl, program, p);
      all.push_back(p);
    }
    say("have " + word);
  }
  wait_for_file(name, "end");
  for (const Piece &p : all) check(cl, count, p);
  return finish();
}
