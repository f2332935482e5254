// SPDX-License-Identifier: Apache-2.0
//
// A random program: creates and destroys objects and enqueues commands of every kind, as the seed
// determines. All commands are ordered, by their queue or by events, so the result depends on the
// seed alone; the last line is a checksum of everything that was computed and read. A test dumps it
// in the middle, with whatever is pending there.
//
//   ocl-random SEED [STEPS]
#include <memory>

#include "cl_test.h"

static const char *const kSource = R"(
__kernel void add(__global uint *d, uint v) { d[get_global_id(0)] += v; }
__kernel void stir(__global uint *d, __global const uint *s, uint v) {
  size_t i = get_global_id(0);
  d[i] = d[i] * 1664525u + s[i] + v;
}
__kernel void turn(__global uint *d, __local uint *l) {
  size_t i = get_global_id(0), k = get_local_id(0), n = get_local_size(0);
  l[k] = d[i];
  barrier(CLK_LOCAL_MEM_FENCE);
  d[i] = l[n - 1 - k] ^ (uint)k;
}
)";

class Random {
 public:
  explicit Random(unsigned long seed) : state_(seed * 0x9e3779b97f4a7c15UL + 1) {}
  // 0 … n-1
  unsigned operator()(unsigned n) {
    state_ ^= state_ << 13;
    state_ ^= state_ >> 7;
    state_ ^= state_ << 17;
    return static_cast<unsigned>((state_ >> 11) % n);
  }

 private:
  unsigned long state_;
};

struct Buffer {
  cl_mem mem, parent;  // a sub-buffer has one
  size_t words;
};

class Program : Cl {
 public:
  explicit Program(unsigned long seed) : random(seed) {
    queues.push_back(queue);
    cl_int status;
    cl_command_queue q =
        clCreateCommandQueue(context, device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &status);
    queues.push_back(status == CL_SUCCESS ? q : clCreateCommandQueue(context, device, 0, &status));
    CL(status);
    program = build(kSource);
    for (const char *name : {"add", "stir", "turn"}) kernels.push_back(kernel(program, name));
    for (int i = 0; i < 4; i++) make_buffer();
  }

  void step() {
    using Action = void (Program::*)();
    static constexpr Action kActions[] = {
        &Program::make_buffer, &Program::make_part, &Program::drop,  &Program::fill,
        &Program::write,       &Program::write,     &Program::read,  &Program::read,
        &Program::copy,        &Program::copy_rect, &Program::add,   &Program::add,
        &Program::mix,         &Program::mix,       &Program::turn,  &Program::map,
        &Program::hold,        &Program::settle,    &Program::renew, &Program::barrier};
    (this->*kActions[random(std::size(kActions))])();
  }

  unsigned result() {
    settle();
    for (const Buffer &b : buffers) fold(read_ints(b.mem, b.words));
    for (const auto &v : landed) fold(*v);
    return sum;
  }

 private:
  void fold(const std::vector<int> &v) {
    for (int x : v) sum = sum * 16777619u ^ static_cast<unsigned>(x);
  }
  std::vector<int> noise(size_t words) {
    std::vector<int> v(words);
    for (int &x : v) x = static_cast<int>(random(1u << 30));
    return v;
  }
  Buffer &any() { return buffers[random(static_cast<unsigned>(buffers.size()))]; }
  cl_command_queue any_queue() { return queues[random(static_cast<unsigned>(queues.size()))]; }

  // Every command waits for the previous one.
  template <class Enqueue>
  void enqueue(Enqueue f) {
    cl_event e;
    CL(f(any_queue(), last ? 1u : 0u, last ? &last : nullptr, &e));
    if (last) CL(clReleaseEvent(last));
    last = e;
  }
  void launch(cl_kernel k, const Buffer &b, size_t local = 0) {
    enqueue([&](cl_command_queue q, cl_uint n, const cl_event *list, cl_event *out) {
      return clEnqueueNDRangeKernel(q, k, 1, nullptr, &b.words, local ? &local : nullptr, n, list,
                                    out);
    });
  }

  void make_buffer() {
    if (buffers.size() >= 12) return;
    size_t words = 1024u * (1 + random(16));
    std::vector<int> v = noise(words);
    buffers.push_back({buffer(words * 4, CL_MEM_COPY_HOST_PTR, v.data()), nullptr, words});
  }
  void make_part() {
    Buffer &b = any();
    if (b.parent || b.words < 3072) return;
    cl_int status;
    cl_buffer_region region{4096, 4096};
    cl_mem part = clCreateSubBuffer(b.mem, 0, CL_BUFFER_CREATE_TYPE_REGION, &region, &status);
    CL(status);
    buffers.push_back({part, b.mem, 1024});
  }
  // Pending commands keep the buffer alive; its contents go into the checksum.
  void drop() {
    if (buffers.size() < 5) return;
    settle();
    auto at = buffers.begin() + random(static_cast<unsigned>(buffers.size()));
    fold(read_ints(at->mem, at->words));
    CL(clReleaseMemObject(at->mem));
    buffers.erase(at);
  }
  void fill() {
    Buffer &b = any();
    unsigned v = random(1000);
    enqueue([&](cl_command_queue q, cl_uint n, const cl_event *list, cl_event *out) {
      return clEnqueueFillBuffer(q, b.mem, &v, 4, 0, b.words * 2, n, list, out);
    });
  }
  // The host memory that a command reads or writes exists until the end.
  void write() {
    Buffer &b = any();
    landed.push_back(std::make_unique<std::vector<int>>(noise(b.words / 2)));
    std::vector<int> &v = *landed.back();
    cl_bool blocking = !gate && random(2);
    enqueue([&](cl_command_queue q, cl_uint n, const cl_event *list, cl_event *out) {
      return clEnqueueWriteBuffer(q, b.mem, blocking, b.words, v.size() * 4, v.data(), n, list,
                                  out);
    });
  }
  void read() {
    Buffer &b = any();
    landed.push_back(std::make_unique<std::vector<int>>(b.words));
    std::vector<int> &v = *landed.back();
    cl_bool blocking = !gate && random(2);
    enqueue([&](cl_command_queue q, cl_uint n, const cl_event *list, cl_event *out) {
      return clEnqueueReadBuffer(q, b.mem, blocking, 0, v.size() * 4, v.data(), n, list, out);
    });
  }
  void copy() {
    Buffer &a = any(), &b = any();
    if (a.mem == b.mem || a.parent || b.parent) return;
    enqueue([&](cl_command_queue q, cl_uint n, const cl_event *list, cl_event *out) {
      return clEnqueueCopyBuffer(q, a.mem, b.mem, 0, 1024, 1024, n, list, out);
    });
  }
  void copy_rect() {
    Buffer &a = any(), &b = any();
    if (a.mem == b.mem || a.parent || b.parent) return;
    size_t from[3]{4, 1, 0}, to[3]{16, 2, 0}, region[3]{48, 20, 1};
    enqueue([&](cl_command_queue q, cl_uint n, const cl_event *list, cl_event *out) {
      return clEnqueueCopyBufferRect(q, a.mem, b.mem, from, to, region, 64, 0, 128, 0, n, list,
                                     out);
    });
  }
  void add() {
    Buffer &b = any();
    unsigned v = random(100);
    CL(clSetKernelArg(kernels[0], 0, sizeof b.mem, &b.mem));
    CL(clSetKernelArg(kernels[0], 1, sizeof v, &v));
    launch(kernels[0], b);
  }
  void mix() {
    Buffer &a = any(), &b = any();
    const Buffer &small = a.words < b.words ? a : b, &large = &small == &a ? b : a;
    if (a.mem == b.mem || a.parent || b.parent) return;
    unsigned v = random(100);
    CL(clSetKernelArg(kernels[1], 0, sizeof small.mem, &small.mem));
    CL(clSetKernelArg(kernels[1], 1, sizeof large.mem, &large.mem));
    CL(clSetKernelArg(kernels[1], 2, sizeof v, &v));
    launch(kernels[1], small);
  }
  void turn() {
    Buffer &b = any();
    size_t local = size_t{16} << random(3);
    CL(clSetKernelArg(kernels[2], 0, sizeof b.mem, &b.mem));
    CL(clSetKernelArg(kernels[2], 1, local * 4, nullptr));
    launch(kernels[2], b, local);
  }
  void map() {
    if (gate) return;
    Buffer &b = any();
    void *p = nullptr;
    enqueue([&](cl_command_queue q, cl_uint n, const cl_event *list, cl_event *out) {
      cl_int status;
      p = clEnqueueMapBuffer(q, b.mem, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE, 512, 1024, n, list, out,
                             &status);
      return status;
    });
    static_cast<int *>(p)[random(256)] ^= 77;
    enqueue([&](cl_command_queue q, cl_uint n, const cl_event *list, cl_event *out) {
      return clEnqueueUnmapMemObject(q, b.mem, p, n, list, out);
    });
  }
  // All further commands wait for a user event, until settle().
  void hold() {
    if (gate) return;
    cl_int status;
    gate = clCreateUserEvent(context, &status);
    CL(status);
    enqueue([&](cl_command_queue q, cl_uint n, const cl_event *list, cl_event *out) {
      cl_event both[2]{gate, n ? list[0] : nullptr};
      return clEnqueueMarkerWithWaitList(q, 1 + n, both, out);
    });
  }
  void settle() {
    if (gate) {
      CL(clSetUserEventStatus(gate, CL_COMPLETE));
      CL(clReleaseEvent(gate));
      gate = nullptr;
    }
    if (last) CL(clWaitForEvents(1, &last));
  }
  // Builds the program again and replaces a kernel, which may still be pending.
  void renew() {
    static constexpr const char *kNames[] = {"add", "stir", "turn"};
    unsigned i = random(3);
    cl_program p = build(kSource, random(2) ? "-cl-mad-enable" : "");
    CL(clReleaseKernel(kernels[i]));
    kernels[i] = kernel(p, kNames[i]);
    CL(clReleaseProgram(p));
  }
  void barrier() {
    enqueue([&](cl_command_queue q, cl_uint n, const cl_event *list, cl_event *out) {
      return clEnqueueBarrierWithWaitList(q, n, list, out);
    });
  }

  Random random;
  unsigned sum = 2166136261u;
  cl_program program = nullptr;
  std::vector<cl_command_queue> queues;
  std::vector<cl_kernel> kernels;
  std::vector<Buffer> buffers;
  std::vector<std::unique_ptr<std::vector<int>>> landed;
  cl_event last = nullptr, gate = nullptr;
};

int main(int argc, char **argv) {
  unsigned long seed = argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 1;
  unsigned steps = argc > 2 ? static_cast<unsigned>(std::atoi(argv[2])) : 200;
  Program p(seed);
  unsigned middle = Random(seed + 1000000)(steps);
  for (unsigned i = 0; i < steps; i++) {
    if (i == middle) pause_here();
    p.step();
  }
  std::printf("checksum %08x\n", p.result());
  return finish();
}
