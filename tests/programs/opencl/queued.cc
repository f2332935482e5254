// SPDX-License-Identifier: Apache-2.0
//
// Long queues: seconds of work that is enqueued and not waited for when the program is dumped.
// Every kernel's result depends on all results before it, so a command that is lost, repeated or
// out of order changes the sum.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <thread>

#include "cl_test.h"

static const char *const kSource =
    "__kernel void advance(__global uint *d, uint v, uint loops) {\n"
    "  uint x = d[get_global_id(0)];\n"
    "  for (uint i = 0; i < loops; i++) x = x * 1664525u + v;\n"
    "  d[get_global_id(0)] = x;\n"
    "}\n";
static constexpr size_t kItems = 64;

struct Work : Cl {
  cl_kernel advance = kernel(build(kSource), "advance");
  cl_uint loops = 1000;

  Work() { calibrate(); }
  cl_command_queue make_queue(cl_command_queue_properties properties) const {
    cl_int status;
    cl_command_queue q = clCreateCommandQueue(context, device, properties, &status);
    if (status != CL_INVALID_QUEUE_PROPERTIES) CL(status);
    return status == CL_SUCCESS ? q : nullptr;
  }
  cl_event user_event() const {
    cl_int status;
    cl_event e = clCreateUserEvent(context, &status);
    CL(status);
    return e;
  }
  cl_mem numbers(cl_uint value) const {
    std::vector<cl_uint> v(kItems, value);
    return buffer(kItems * sizeof(cl_uint), CL_MEM_COPY_HOST_PTR, v.data());
  }
  cl_uint read(cl_mem m) const {
    cl_uint v[kItems];
    CL(clEnqueueReadBuffer(queue, m, CL_TRUE, 0, sizeof v, v, 0, nullptr, nullptr));
    for (cl_uint x : v) EXPECT(x == v[0]);
    return v[0];
  }
  void launch(cl_command_queue q, cl_mem m, cl_uint v, std::vector<cl_event> after = {},
              cl_event *out = nullptr) const {
    size_t n = kItems;
    CL(clSetKernelArg(advance, 0, sizeof m, &m));
    CL(clSetKernelArg(advance, 1, sizeof v, &v));
    CL(clSetKernelArg(advance, 2, sizeof loops, &loops));
    CL(clEnqueueNDRangeKernel(q, advance, 1, nullptr, &n, nullptr, (cl_uint)after.size(),
                              after.empty() ? nullptr : after.data(), out));
  }
  cl_event event_of(cl_command_queue q, cl_mem m, cl_uint v,
                    std::vector<cl_event> after = {}) const {
    cl_event e;
    launch(q, m, v, std::move(after), &e);
    return e;
  }
  // What launch() computes.
  cl_uint stepped(cl_uint x, cl_uint v) const {
    for (cl_uint i = 0; i < loops; i++) x = x * 1664525u + v;
    return x;
  }
  // Chooses `loops` so that a launch takes about a millisecond here and now.
  void calibrate() {
    using Clock = std::chrono::steady_clock;
    cl_mem m = numbers(1);
    launch(queue, m, 1);
    CL(clFinish(queue));
    for (double least = 0; least < 2.5; loops *= 2) {
      least = 1e9;  // of several, because other programs disturb
      for (int i = 0; i < 5; i++) {
        auto begin = Clock::now();
        for (int k = 0; k < 4; k++) launch(queue, m, 1);
        CL(clFinish(queue));
        std::chrono::duration<double, std::milli> ms = Clock::now() - begin;
        least = std::min(least, ms.count());
      }
    }
    CL(clReleaseMemObject(m));
  }
};

static cl_int status_of(cl_event e) {
  cl_int status = 99;
  CL(clGetEventInfo(e, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr));
  return status;
}

static cl_ulong stamp(cl_event e, cl_profiling_info which) {
  cl_ulong t = 0;
  CL(clGetEventProfilingInfo(e, which, sizeof t, &t, nullptr));
  return t;
}

static std::atomic<int> g_calls{0};
static void CL_CALLBACK called(cl_event, cl_int status, void *) {
  if (status == CL_COMPLETE) g_calls++;
}

// An in-order queue: launches, copies, fills, writes and a read, most of them without events.
struct InOrder {
  static constexpr int kSteps = 800;
  explicit InOrder(const Work &w) : w(w), a(w.numbers(1)), b(w.numbers(0)), c(w.numbers(0)) {
    for (cl_uint i = 0; i < kSteps; i++) w.launch(w.queue, a, i);
    size_t bytes = sizeof to;
    cl_uint seven = 7;
    CL(clEnqueueCopyBuffer(w.queue, a, b, 0, 0, bytes, 0, nullptr, &copied));
    CL(clEnqueueFillBuffer(w.queue, c, &seven, 4, 0, bytes, 0, nullptr, nullptr));
    CL(clEnqueueReadBuffer(w.queue, c, CL_FALSE, 0, bytes, to, 0, nullptr, nullptr));
    CL(clEnqueueWriteBuffer(w.queue, a, CL_FALSE, 0, bytes, to, 0, nullptr, nullptr));  // sevens
    w.launch(w.queue, a, 5, {}, &last);
    CL(clSetEventCallback(last, CL_COMPLETE, called, nullptr));
    CL(clFlush(w.queue));
    waiter = std::thread([this] { CL(clWaitForEvents(1, &copied)); });
    finisher = std::thread([this] { CL(clFinish(this->w.queue)); });
  }
  void check() {
    waiter.join();
    finisher.join();
    EXPECT(status_of(last) == CL_COMPLETE);
    cl_uint x = 1;
    for (cl_uint i = 0; i < kSteps; i++) x = w.stepped(x, i);
    EXPECT(w.read(b) == x && to[0] == 7 && to[kItems - 1] == 7);
    EXPECT(w.read(a) == w.stepped(7, 5));
    for (int i = 0; i < 5000 && g_calls < 1; i++) ::usleep(1000);
    EXPECT(g_calls == 1);
  }
  const Work &w;
  cl_mem a, b, c;
  cl_uint to[kItems] = {};
  cl_event copied = nullptr, last = nullptr;
  std::thread waiter, finisher;
};

// Three chains in an out-of-order queue, a barrier, and one chain after it.
struct OutOfOrder {
  static constexpr cl_uint kSteps = 80;
  explicit OutOfOrder(const Work &w)
      : w(w), q(w.make_queue(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)) {
    if (!q) return;
    for (cl_uint c = 0; c < 3; c++) {
      cl_event before = w.event_of(q, m[c] = w.numbers(c), 0);
      for (cl_uint i = 1; i < kSteps; i++) before = w.event_of(q, m[c], i, {before});
    }
    CL(clEnqueueBarrierWithWaitList(q, 0, nullptr, &barrier));
    w.launch(q, m[0], 1000);  // after all of them
    CL(clEnqueueMarkerWithWaitList(q, 0, nullptr, &all));
  }
  void check() const {
    if (!q) return;
    CL(clWaitForEvents(1, &all));
    EXPECT(status_of(barrier) == CL_COMPLETE);
    for (cl_uint c = 0; c < 3; c++) {
      cl_uint x = c;
      for (cl_uint i = 0; i < kSteps; i++) x = w.stepped(x, i);
      EXPECT(w.read(m[c]) == (c == 0 ? w.stepped(x, 1000) : x));
    }
  }
  const Work &w;
  cl_command_queue q;
  cl_mem m[3] = {};
  cl_event barrier = nullptr, all = nullptr;
};

// Two queues take turns with one buffer; the second one has profiling enabled.
struct Turns {
  static constexpr cl_uint kTurns = 100;
  explicit Turns(const Work &w)
      : w(w), one(w.make_queue(0)), two(w.make_queue(CL_QUEUE_PROFILING_ENABLE)), m(w.numbers(3)) {
    cl_event before = w.event_of(one, m, 0);
    for (cl_uint i = 0; i < kTurns; i++) {
      stamped.push_back(w.event_of(two, m, 2 * i + 1, {before}));
      before = w.event_of(one, m, 2 * i + 2, {stamped.back()});
    }
  }
  void check() const {
    CL(clFinish(one));
    cl_uint x = 3;
    for (cl_uint i = 0; i <= 2 * kTurns; i++) x = w.stepped(x, i);
    EXPECT(w.read(m) == x);
    cl_ulong end = 0;
    for (cl_event e : stamped) {
      EXPECT(stamp(e, CL_PROFILING_COMMAND_QUEUED) <= stamp(e, CL_PROFILING_COMMAND_SUBMIT));
      EXPECT(stamp(e, CL_PROFILING_COMMAND_SUBMIT) <= stamp(e, CL_PROFILING_COMMAND_START));
      EXPECT(stamp(e, CL_PROFILING_COMMAND_START) <= stamp(e, CL_PROFILING_COMMAND_END));
      EXPECT(end <= stamp(e, CL_PROFILING_COMMAND_END));
      end = stamp(e, CL_PROFILING_COMMAND_END);
    }
  }
  const Work &w;
  cl_command_queue one, two;
  cl_mem m;
  std::vector<cl_event> stamped;
};

// Commands behind a user event, and others behind those, in the midst of commands that run.
struct Blocked {
  static constexpr cl_uint kSteps = 100;
  explicit Blocked(const Work &w)
      : w(w), q(w.make_queue(0)), gate(w.user_event()), m(w.numbers(4)) {
    for (cl_uint i = 0; i < kSteps; i++) w.launch(q, m, i);
    w.launch(q, m, 99, {gate});
    for (cl_uint i = 0; i < kSteps; i++) w.launch(q, m, i, {}, i + 1 == kSteps ? &last : nullptr);
  }
  void check() const {
    EXPECT(status_of(last) > CL_COMPLETE);
    CL(clSetUserEventStatus(gate, CL_COMPLETE));
    CL(clWaitForEvents(1, &last));
    cl_uint x = 4;
    for (cl_uint i = 0; i < kSteps; i++) x = w.stepped(x, i);
    x = w.stepped(x, 99);
    for (cl_uint i = 0; i < kSteps; i++) x = w.stepped(x, i);
    EXPECT(w.read(m) == x);
  }
  const Work &w;
  cl_command_queue q;
  cl_event gate, last = nullptr;
  cl_mem m;
};

// What a program sees of a long queue: immediate errors, bytes that a blocking write has taken, and
// when its commands were enqueued.
static void as_without_ckpt(const Work &w) {
  static constexpr cl_uint kSteps = 200;
  cl_command_queue q = w.make_queue(CL_QUEUE_PROFILING_ENABLE);
  cl_mem m = w.numbers(1), other = w.numbers(0);
  std::vector<cl_event> events;
  for (cl_uint i = 0; i < kSteps; i++) events.push_back(w.event_of(q, m, i));
  std::vector<cl_uint> bytes(kItems, 11);
  CL(clEnqueueWriteBuffer(q, other, CL_TRUE, 0, kItems * 4, bytes.data(), 0, nullptr, nullptr));
  bytes.assign(kItems, 12);
  for (cl_uint i = 0; i < kSteps; i++) w.launch(q, m, i);
  // Again and again: the answer comes by another thread.
  size_t n = kItems, too_many = size_t{1} << 24;
  for (int i = 0; i < 300; i++) {
    w.launch(q, m, 0);
    EXPECT(clEnqueueNDRangeKernel(q, w.advance, 1, nullptr, &n, &too_many, 0, nullptr, nullptr) !=
           CL_SUCCESS);
  }
  for (cl_event e : events) CL(clWaitForEvents(1, &e));
  CL(clFinish(q));
  EXPECT(w.read(other) == 11);
  EXPECT(stamp(events.back(), CL_PROFILING_COMMAND_QUEUED) <
         stamp(events[kSteps / 2], CL_PROFILING_COMMAND_END));
}

// More commands than are kept: the program waits until the device has done some.
static void more_than_is_kept(const Work &w) {
  static constexpr cl_uint kSteps = 20'000;
  Work quick = w;
  quick.loops = 10;
  cl_mem m = w.numbers(1);
  for (cl_uint i = 0; i < kSteps; i++) quick.launch(w.queue, m, i);
  cl_uint x = 1;
  for (cl_uint i = 0; i < kSteps; i++) x = quick.stepped(x, i);
  EXPECT(w.read(m) == x);
}

int main() {
  Work w;
  as_without_ckpt(w);
  more_than_is_kept(w);
  Blocked blocked(w);
  OutOfOrder free_order(w);
  Turns turns(w);
  auto *in_order = new InOrder(w);
  pause_here();
  in_order->check();
  turns.check();
  free_order.check();
  blocked.check();
  as_without_ckpt(w);
  return finish();
}
