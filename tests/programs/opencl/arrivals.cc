// SPDX-License-Identifier: Apache-2.0
//
// A program with many buffers, each of which it uses in another way when it goes on, before any
// other command has touched it: what it finds there, and what stays there, must be what was there
// before. Prints NEEDED then. The buffers of `rest` it uses only when the file CKPT_TEST_ALL
// exists. One buffer it releases unused, another one it never uses.
#include <functional>
#include <thread>

#include "cl_test.h"

static const char *const kSource =
    "__kernel void next(__global int *d) { d[get_global_id(0)] += 1; }\n"
    "__kernel void add(__global int *d, __global const int *a) {\n"
    "  d[get_global_id(0)] += a[get_global_id(0)];\n"
    "}\n";
static constexpr size_t kInts = 1 << 20, kFew = 1 << 10, kPart = kInts / 4;

static int value(int number, size_t i) { return number * 10'000'000 + static_cast<int>(i); }

struct Buffer {
  int number;
  size_t ints;
  cl_mem mem;
};

struct Work : Cl {
  cl_program program = build(kSource);
  cl_kernel next = kernel(program, "next"), early = kernel(program, "next"),
            late = kernel(program, "next"), add = kernel(program, "add");
  std::vector<Buffer> all;

  Buffer make(size_t ints) {
    Buffer b{static_cast<int>(all.size()), ints, buffer(ints * sizeof(int))};
    std::vector<int> v(ints);
    for (size_t i = 0; i < ints; i++) v[i] = value(b.number, i);
    CL(clEnqueueWriteBuffer(queue, b.mem, CL_TRUE, 0, ints * sizeof(int), v.data(), 0, nullptr,
                            nullptr));
    all.push_back(b);
    return b;
  }
  void launch(cl_command_queue q, cl_kernel k, size_t ints, cl_event after = nullptr) const {
    CL(clEnqueueNDRangeKernel(q, k, 1, nullptr, &ints, nullptr, after ? 1 : 0,
                              after ? &after : nullptr, nullptr));
  }
  // Whether the ints from `from` on are those of the buffer in the beginning, plus `more`.
  static void check(const Buffer &b, const int *v, size_t from, size_t count, int more = 0) {
    size_t wrong = 0;
    for (size_t i = 0; i < count; i++) wrong += v[i] != value(b.number, from + i) + more;
    EXPECT(wrong == 0);
    if (wrong) std::printf("buffer %d: %zu of %zu wrong\n", b.number, wrong, count);
  }
  void check(const Buffer &b, size_t from, size_t count, int more = 0) const {
    std::vector<int> v = read_ints(b.mem, count, from);
    check(b, v.data(), 0 + from, count, more);
  }
  void check_value(const Buffer &b, size_t from, size_t count, int wanted) const {
    for (int v : read_ints(b.mem, count, from))
      if (v != wanted) {
        EXPECT(v == wanted);
        return;
      }
  }
  cl_mem part_of(const Buffer &b) const {
    cl_int status;
    cl_buffer_region part{kPart * sizeof(int), kPart * sizeof(int)};
    cl_mem sub = clCreateSubBuffer(b.mem, 0, CL_BUFFER_CREATE_TYPE_REGION, &part, &status);
    CL(status);
    return sub;
  }
  void check_around_part(const Buffer &b, int more) const {
    check(b, 0, kPart);
    check(b, kPart, kPart, more);
    check(b, 2 * kPart, b.ints - 2 * kPart);
  }
  void launch_on_part(const Buffer &b, cl_mem sub) const {
    CL(clSetKernelArg(next, 0, sizeof sub, &sub));
    launch(queue, next, kPart);
    check_around_part(b, 1);
  }
  void launch_on(const Buffer &b) const {
    CL(clSetKernelArg(next, 0, sizeof b.mem, &b.mem));
    launch(queue, next, b.ints);
    check(b, 0, b.ints, 1);
  }
  void read_later(const Buffer &b) const {
    std::vector<int> v(b.ints);
    cl_event done;
    CL(clEnqueueReadBuffer(queue, b.mem, CL_FALSE, 0, b.ints * sizeof(int), v.data(), 0, nullptr,
                           &done));
    CL(clWaitForEvents(1, &done));
    CL(clReleaseEvent(done));
    check(b, v.data(), 0, b.ints);
  }
  void read_rows(const Buffer &b) const {
    std::vector<int> v(b.ints);
    size_t origin[3] = {0, 0, 0}, region[3] = {4096, b.ints * sizeof(int) / 4096, 1};
    CL(clEnqueueReadBufferRect(queue, b.mem, CL_TRUE, origin, origin, region, 4096, 0, 4096, 0,
                               v.data(), 0, nullptr, nullptr));
    check(b, v.data(), 0, b.ints);
  }
  void write_part(const Buffer &b, cl_bool blocking) const {
    std::vector<int> v(kPart, 5);
    CL(clEnqueueWriteBuffer(queue, b.mem, blocking, kPart * sizeof(int), kPart * sizeof(int),
                            v.data(), 0, nullptr, nullptr));
    check(b, 0, kPart);
    check_value(b, kPart, kPart, 5);
    check(b, 2 * kPart, b.ints - 2 * kPart);
  }
  void fill_part(const Buffer &b) const {
    const int five = 5;
    CL(clEnqueueFillBuffer(queue, b.mem, &five, sizeof five, kPart * sizeof(int),
                           kPart * sizeof(int), 0, nullptr, nullptr));
    check(b, 0, kPart);
    check_value(b, kPart, kPart, 5);
    check(b, 2 * kPart, b.ints - 2 * kPart);
  }
  void copy_part(const Buffer &from, const Buffer &to) const {
    CL(clEnqueueCopyBuffer(queue, from.mem, to.mem, 0, kPart * sizeof(int), kPart * sizeof(int), 0,
                           nullptr, nullptr));
    check(to, 0, kPart);
    std::vector<int> v = read_ints(to.mem, kPart, kPart);
    check(from, v.data(), 0, kPart);
    check(to, 2 * kPart, to.ints - 2 * kPart);
  }
  int *map(const Buffer &b, cl_map_flags flags) const {
    cl_int status;
    void *at = clEnqueueMapBuffer(queue, b.mem, CL_TRUE, flags, kPart * sizeof(int),
                                  kPart * sizeof(int), 0, nullptr, nullptr, &status);
    CL(status);
    return static_cast<int *>(at);
  }
  void map_to_read(const Buffer &b) const {
    int *at = map(b, CL_MAP_READ);
    check(b, at, kPart, kPart);
    CL(clEnqueueUnmapMemObject(queue, b.mem, at, 0, nullptr, nullptr));
    check_around_part(b, 0);
  }
  void map_to_write(const Buffer &b) const {
    int *at = map(b, CL_MAP_WRITE_INVALIDATE_REGION);
    for (size_t i = 0; i < kPart; i++) at[i] = value(b.number, kPart + i) + 7;
    CL(clEnqueueUnmapMemObject(queue, b.mem, at, 0, nullptr, nullptr));
    check_around_part(b, 7);
  }
  void add_all(const Buffer &to, const Buffer &from) const {
    CL(clSetKernelArg(add, 0, sizeof to.mem, &to.mem));
    CL(clSetKernelArg(add, 1, sizeof from.mem, &from.mem));
    launch(queue, add, kFew);
    std::vector<int> v = read_ints(to.mem, kFew);
    size_t wrong = 0;
    for (size_t i = 0; i < kFew; i++) wrong += v[i] != value(to.number, i) + value(from.number, i);
    EXPECT(wrong == 0);
    check(from, 0, kFew);
  }
  void in_threads(const std::vector<Buffer> &buffers) const {
    std::vector<std::thread> threads;
    for (const Buffer &b : buffers)
      threads.emplace_back([this, b] {
        cl_int status;
        cl_command_queue own = clCreateCommandQueue(context, device, 0, &status);
        CL(status);
        cl_kernel k = kernel(program, "next");
        CL(clSetKernelArg(k, 0, sizeof b.mem, &b.mem));
        launch(own, k, b.ints);
        CL(clFinish(own));
        CL(clReleaseKernel(k));
        CL(clReleaseCommandQueue(own));
      });
    for (std::thread &t : threads) t.join();
    for (const Buffer &b : buffers) check(b, 0, b.ints, 1);
  }
};

int main() {
  Work w;
  std::vector<Buffer> b;
  for (int i = 0; i < 20; i++) b.push_back(w.make(i % 2 ? kInts : kInts + kFew));
  Buffer few = w.make(kFew), other_few = w.make(kFew), released = w.make(kInts);
  std::vector<Buffer> rest{w.make(kInts), w.make(kFew), w.make(4 * kInts)};
  w.make(kInts);  // never used
  cl_mem sub = w.part_of(b[0]);
  // Arguments that were set before, and a launch that waits for the program.
  CL(clSetKernelArg(w.early, 0, sizeof b[1].mem, &b[1].mem));
  CL(clSetKernelArg(w.late, 0, sizeof b[2].mem, &b[2].mem));
  cl_int status;
  cl_event user = clCreateUserEvent(w.context, &status);
  CL(status);
  cl_command_queue behind = clCreateCommandQueue(w.context, w.device, 0, &status);
  CL(status);
  w.launch(behind, w.late, b[2].ints, user);
  pause_here();

  w.launch(w.queue, w.early, b[1].ints);
  w.check(b[1], 0, b[1].ints, 1);
  std::printf("FIRST\n");
  std::fflush(stdout);
  CL(clReleaseMemObject(released.mem));
  CL(clSetUserEventStatus(user, CL_COMPLETE));
  CL(clFinish(behind));
  w.check(b[2], 0, b[2].ints, 1);
  w.launch_on_part(b[0], sub);
  w.launch_on_part(b[3], w.part_of(b[3]));
  w.check(b[4], 0, b[4].ints);
  w.read_later(b[5]);
  w.read_rows(b[6]);
  w.write_part(b[7], CL_TRUE);
  w.write_part(b[8], CL_FALSE);
  w.fill_part(b[9]);
  w.copy_part(b[10], b[11]);
  w.map_to_read(b[12]);
  w.map_to_write(b[13]);
  w.add_all(few, other_few);
  w.in_threads({b[14], b[15], b[16], b[17]});
  w.launch_on(b[18]);
  std::printf("NEEDED\n");
  std::fflush(stdout);
  const char *all = std::getenv("CKPT_TEST_ALL");
  while (all && ::access(all, F_OK) != 0) ::usleep(20'000);
  for (const Buffer &r : rest) w.check(r, 0, r.ints);
  w.launch_on(b[19]);
  return finish();
}
