// SPDX-License-Identifier: Apache-2.0
//
// Buffers that are written between two dumps, each in another way, and some that are only read. An
// increment must hold the new bytes of the former and need not read the latter.
#include <functional>

#include "cl_test.h"

static const char *const kSource =
    "__kernel void store(__global int *d, __global const int *in, __constant int *c) {\n"
    "  d[get_global_id(0)] = in[get_global_id(0)] + c[0];\n"
    "}\n";
static constexpr size_t kInts = 1 << 18, kBytes = kInts * sizeof(int);

struct Work : Cl {
  cl_kernel store = kernel(build(kSource), "store");
  cl_mem source = numbered(1000, CL_MEM_READ_ONLY), constant = numbered(7);
  std::vector<int> host = std::vector<int>(kInts, 5);

  // value, value + 1, …
  cl_mem numbered(int value, cl_mem_flags flags = CL_MEM_READ_WRITE) const {
    std::vector<int> v(kInts);
    for (size_t i = 0; i < kInts; i++) v[i] = value + (int)i;
    return buffer(kBytes, flags | CL_MEM_COPY_HOST_PTR, v.data());
  }
  void launch(cl_mem to, cl_uint waits = 0, const cl_event *list = nullptr) const {
    size_t n = kInts;
    CL(clSetKernelArg(store, 0, sizeof to, &to));
    CL(clSetKernelArg(store, 1, sizeof source, &source));
    CL(clSetKernelArg(store, 2, sizeof constant, &constant));
    CL(clEnqueueNDRangeKernel(queue, store, 1, nullptr, &n, nullptr, waits, list, nullptr));
  }
};

// A way to write, and the first and last number that it leaves in a buffer with 0, 1, ….
struct Way {
  std::function<void(cl_mem)> write;
  int first, last;
  cl_mem mem = nullptr;
};

static void map_and_write(const Work &w, cl_mem m) {
  cl_int status;
  auto *at = static_cast<int *>(clEnqueueMapBuffer(w.queue, m, CL_TRUE, CL_MAP_WRITE, 0, kBytes, 0,
                                                   nullptr, nullptr, &status));
  CL(status);
  at[0] = 11;
  CL(clEnqueueUnmapMemObject(w.queue, m, at, 0, nullptr, nullptr));
}

static void write_through_sub_buffer(const Work &w, cl_mem m) {
  cl_int status;
  cl_buffer_region half{0, kBytes / 2};
  cl_mem sub = clCreateSubBuffer(m, 0, CL_BUFFER_CREATE_TYPE_REGION, &half, &status);
  CL(status);
  CL(clEnqueueWriteBuffer(w.queue, sub, CL_TRUE, 0, 4, w.host.data(), 0, nullptr, nullptr));
  CL(clReleaseMemObject(sub));
}

static void write_rect(const Work &w, cl_mem m) {
  size_t origin[3] = {0, 0, 0}, region[3] = {8, 2, 1};
  CL(clEnqueueWriteBufferRect(w.queue, m, CL_TRUE, origin, origin, region, 64, 0, 64, 0,
                              w.host.data(), 0, nullptr, nullptr));
}

static std::vector<Way> ways(const Work &w) {
  constexpr int kLast = (int)kInts - 1;
  return {
      {[&w](cl_mem m) { w.launch(m); }, 1007, 1007 + kLast},
      {[&w](cl_mem m) {
         CL(clEnqueueWriteBuffer(w.queue, m, CL_TRUE, 0, 4, w.host.data(), 0, nullptr, nullptr));
       },
       5, kLast},
      {[&w](cl_mem m) { write_rect(w, m); }, 5, kLast},
      {[&w](cl_mem m) { write_through_sub_buffer(w, m); }, 5, kLast},
      {[&w](cl_mem m) { map_and_write(w, m); }, 11, kLast},
      {[&w](cl_mem m) {
         CL(clEnqueueCopyBuffer(w.queue, w.source, m, 0, 0, 4, 0, nullptr, nullptr));
       },
       1000, kLast},
      {[&w](cl_mem m) {
         size_t origin[3] = {0, 0, 0}, region[3] = {8, 2, 1};
         CL(clEnqueueCopyBufferRect(w.queue, w.source, m, origin, origin, region, 64, 0, 64, 0, 0,
                                    nullptr, nullptr));
       },
       1000, kLast},
      {[&w](cl_mem m) {
         const int pattern = 9;
         CL(clEnqueueFillBuffer(w.queue, m, &pattern, 4, 0, 8, 0, nullptr, nullptr));
       },
       9, kLast},
  };
}

static void check(const Work &w, const Way &way) {
  std::vector<int> v = w.read_ints(way.mem, kInts);
  EXPECT(v.front() == way.first);
  EXPECT(v.back() == way.last);
}

int main() {
  Work w;
  std::vector<Way> all = ways(w);
  for (Way &way : all) way.mem = w.numbered(0);
  // A deferred command: enqueued before the first dump, sent after it.
  cl_int status;
  cl_event gate = clCreateUserEvent(w.context, &status);
  CL(status);
  cl_command_queue other = clCreateCommandQueue(w.context, w.device, 0, &status);
  CL(status);
  cl_mem deferred = w.numbered(0);
  CL(clEnqueueWriteBuffer(other, deferred, CL_FALSE, 0, 4, w.host.data(), 1, &gate, nullptr));
  cl_mem only_read = w.numbered(0);
  CL(clFinish(w.queue));
  pause_here();
  CL(clSetUserEventStatus(gate, CL_COMPLETE));
  for (const Way &way : all) way.write(way.mem);
  EXPECT(w.read_ints(only_read, 2)[1] == 1);
  CL(clFinish(other));
  CL(clFinish(w.queue));
  if (const char *go = std::getenv("CKPT_TEST_GO")) ::unlink(go);
  pause_here();
  for (const Way &way : all) check(w, way);
  EXPECT(w.read_ints(deferred, 1)[0] == 5);
  EXPECT(w.read_ints(only_read, 2)[1] == 1);
  EXPECT(w.read_ints(w.source, 1)[0] == 1000 && w.read_ints(w.constant, 1)[0] == 7);
  return finish();
}
