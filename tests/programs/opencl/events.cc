// SPDX-License-Identifier: Apache-2.0
//
// User events, event callbacks and out-of-order queues, all pending when the program is dumped:
// commands that wait for a user event, a callback that is due later, threads that wait.
#include <atomic>
#include <thread>

#include "cl_test.h"

static const char *const kSource =
    "__kernel void add(__global int *d, int v) { d[get_global_id(0)] += v; }\n"
    "__kernel void twice(__global int *d) { d[get_global_id(0)] *= 2; }\n"
    "__kernel void spin(__global uint *d, uint n) {\n"
    "  uint x = d[0];\n"
    "  for (uint i = 0; i < n; i++) x = x * 1664525u + 1013904223u;\n"
    "  d[0] = x;\n"
    "}\n";
static constexpr size_t kItems = 1024;

struct Seen {
  std::atomic<int> calls{0}, status{99};
  cl_event event = nullptr;
  bool wait(int n = 1) const {
    for (int i = 0; i < 5000 && calls < n; i++) ::usleep(1000);
    return calls == n;
  }
};

static void CL_CALLBACK seen(cl_event e, cl_int status, void *user) {
  auto *s = static_cast<Seen *>(user);
  s->event = e;
  s->status = status;
  s->calls++;
}

static void CL_CALLBACK set_it(cl_event, cl_int, void *user) {
  clSetUserEventStatus(static_cast<cl_event>(user), CL_COMPLETE);
}

static cl_int status_of(cl_event e) {
  cl_int status = 99;
  CL(clGetEventInfo(e, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof status, &status, nullptr));
  return status;
}

struct Work : Cl {
  cl_kernel add, twice, spin;
  cl_command_queue free_queue = nullptr;  // out-of-order if the device supports it
  Work() {
    cl_program p = build(kSource);
    add = kernel(p, "add");
    twice = kernel(p, "twice");
    spin = kernel(p, "spin");
    cl_int status;
    free_queue =
        clCreateCommandQueue(context, device, CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE, &status);
    if (status != CL_SUCCESS) {
      EXPECT(status == CL_INVALID_QUEUE_PROPERTIES);
      free_queue = clCreateCommandQueue(context, device, 0, &status);
    }
    CL(status);
  }
  cl_event user_event() const {
    cl_int status;
    cl_event e = clCreateUserEvent(context, &status);
    CL(status);
    return e;
  }
  cl_mem ints(int value) const {
    std::vector<int> v(kItems, value);
    return buffer(kItems * sizeof(int), CL_MEM_COPY_HOST_PTR, v.data());
  }
  // Launches `add` with `v`, after the events.
  cl_event launch_add(cl_command_queue q, cl_mem m, int v, std::vector<cl_event> after = {}) const {
    CL(clSetKernelArg(add, 0, sizeof m, &m));
    CL(clSetKernelArg(add, 1, sizeof v, &v));
    return launch(q, add, std::move(after));
  }
  cl_event launch_twice(cl_command_queue q, cl_mem m, std::vector<cl_event> after = {}) const {
    CL(clSetKernelArg(twice, 0, sizeof m, &m));
    return launch(q, twice, std::move(after));
  }
  static cl_event launch(cl_command_queue q, cl_kernel k, std::vector<cl_event> after) {
    cl_event e;
    size_t n = kItems;
    CL(clEnqueueNDRangeKernel(q, k, 1, nullptr, &n, nullptr, (cl_uint)after.size(),
                              after.empty() ? nullptr : after.data(), &e));
    return e;
  }
};

// Commands that wait for a user event; enqueued before the dump, checked after it.
struct Pending {
  explicit Pending(const Work &w) : w(w), gate(w.user_event()), a(w.ints(1)), b(w.ints(100)) {
    // A launch uses the arguments of its time, even if others are set later.
    cl_event added = w.launch_add(w.queue, a, 10, {gate});
    w.launch_twice(w.queue, a);  // behind it in the in-order queue
    // A read into host memory and a write from it, both behind the gate: the write sends the bytes
    // that the read has brought.
    CL(clEnqueueReadBuffer(w.queue, a, CL_FALSE, 0, sizeof through, through, 0, nullptr, nullptr));
    CL(clEnqueueWriteBuffer(w.queue, b, CL_FALSE, 0, sizeof through, through, 0, nullptr,
                            &written));
    CL(clSetEventCallback(written, CL_COMPLETE, seen, &at_end));
    CL(clSetEventCallback(added, CL_COMPLETE, seen, &at_add));
    EXPECT(status_of(added) == CL_QUEUED || status_of(added) == CL_SUBMITTED);
    waiter = std::thread([this] {
      CL(clWaitForEvents(1, &written));
      waited = true;
    });
    finisher = std::thread([this] {
      CL(clFinish(this->w.queue));
      finished = true;
    });
  }
  void check() {
    EXPECT(!waited && !finished && at_end.calls == 0 && through[0] == 0);
    CL(clSetUserEventStatus(gate, CL_COMPLETE));
    EXPECT(clSetUserEventStatus(gate, CL_COMPLETE) == CL_INVALID_OPERATION);
    waiter.join();
    finisher.join();
    EXPECT(at_end.wait() && at_end.status == CL_COMPLETE && at_end.event == written);
    EXPECT(at_add.wait());
    EXPECT(through[0] == 22 && through[kItems - 1] == 22);
    EXPECT(w.read_ints(b, kItems)[kItems / 2] == 22);
  }

  const Work &w;
  cl_event gate, written = nullptr;
  cl_mem a, b;
  int through[kItems] = {};
  Seen at_end, at_add;
  std::atomic<bool> waited{false}, finished{false};
  std::thread waiter, finisher;
};

// Two chains in an out-of-order queue. One waits for a user event, the other one runs.
struct Chains {
  explicit Chains(const Work &w) : w(w), gate(w.user_event()), a(w.ints(1)), b(w.ints(1)) {
    cl_event first = w.launch_add(w.free_queue, a, 1, {gate});
    last_a = w.launch_twice(w.free_queue, a, {first});
    if (in_order()) return;
    cl_event other = w.launch_add(w.free_queue, b, 2);
    last_b = w.launch_twice(w.free_queue, b, {other});
    CL(clWaitForEvents(1, &last_b));
    EXPECT(status_of(last_a) > CL_COMPLETE);
  }
  bool in_order() const {
    cl_command_queue_properties p = 0;
    CL(clGetCommandQueueInfo(w.free_queue, CL_QUEUE_PROPERTIES, sizeof p, &p, nullptr));
    return !(p & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE);
  }
  void check() {
    cl_event all, late;
    CL(clEnqueueBarrierWithWaitList(w.free_queue, 0, nullptr, &all));
    late = w.launch_add(w.free_queue, a, 1000);  // after the barrier
    CL(clSetUserEventStatus(gate, CL_COMPLETE));
    CL(clWaitForEvents(1, &late));
    EXPECT(status_of(all) == CL_COMPLETE && status_of(last_a) == CL_COMPLETE);
    CL(clFinish(w.free_queue));
    EXPECT(w.read_ints(a, kItems)[7] == 1004);
    if (last_b) EXPECT(w.read_ints(b, kItems)[7] == 6);
  }

  const Work &w;
  cl_event gate, last_a = nullptr, last_b = nullptr;
  cl_mem a, b;
};

// An error of a user event becomes an error of every command that waits for it.
static void failing(const Work &w) {
  cl_event gate = w.user_event();
  cl_mem m = w.ints(5);
  Seen s;
  cl_event e = w.launch_add(w.free_queue, m, 1, {gate});
  CL(clSetEventCallback(e, CL_COMPLETE, seen, &s));
  EXPECT(clSetUserEventStatus(gate, 1) == CL_INVALID_VALUE);
  CL(clSetUserEventStatus(gate, -7));
  EXPECT(clSetUserEventStatus(gate, CL_COMPLETE) == CL_INVALID_OPERATION);
  EXPECT(status_of(gate) == -7);
  EXPECT(clWaitForEvents(1, &e) == CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST);
  EXPECT(status_of(e) < 0);
  EXPECT(s.wait() && s.status < 0);
}

// A callback without any further OpenCL call, and one that sets the user event which all commands
// wait for.
static void callbacks(const Work &w) {
  cl_mem m = w.ints(3);
  Seen s, late;
  cl_event gate = w.user_event();
  cl_event e = w.launch_add(w.queue, m, 1);
  CL(clSetEventCallback(e, CL_COMPLETE, seen, &s));
  CL(clFlush(w.queue));
  EXPECT(s.wait() && s.status == CL_COMPLETE && s.event == e);
  CL(clSetEventCallback(e, CL_COMPLETE, seen, &late));
  EXPECT(late.wait());
  cl_event first = w.launch_add(w.queue, m, 10);
  CL(clSetEventCallback(first, CL_COMPLETE, set_it, gate));
  w.launch_twice(w.queue, m, {gate});
  CL(clFinish(w.queue));
  EXPECT(w.read_ints(m, 1)[0] == 28);
}

// After a refused launch, clFinish still waits for the launch before it.
static void refused(const Work &w) {
  cl_mem m = w.ints(5);
  cl_uint loops = 50'000'000;
  size_t one = 1, all = kItems, too_many = size_t{1} << 24;
  cl_event slow, never;
  CL(clSetKernelArg(w.spin, 0, sizeof m, &m));
  CL(clSetKernelArg(w.spin, 1, sizeof loops, &loops));
  CL(clEnqueueNDRangeKernel(w.queue, w.spin, 1, nullptr, &one, nullptr, 0, nullptr, &slow));
  EXPECT(clEnqueueNDRangeKernel(w.queue, w.spin, 1, nullptr, &all, &too_many, 0, nullptr, &never) !=
         CL_SUCCESS);
  CL(clFinish(w.queue));
  EXPECT(status_of(slow) == CL_COMPLETE);
}

static void infos(const Work &w) {
  cl_event e = w.user_event();
  cl_command_queue q = w.queue;
  cl_command_type type = 0;
  CL(clGetEventInfo(e, CL_EVENT_COMMAND_QUEUE, sizeof q, &q, nullptr));
  CL(clGetEventInfo(e, CL_EVENT_COMMAND_TYPE, sizeof type, &type, nullptr));
  EXPECT(q == nullptr && type == CL_COMMAND_USER && status_of(e) == CL_SUBMITTED);
  cl_ulong t;
  EXPECT(clGetEventProfilingInfo(e, CL_PROFILING_COMMAND_END, sizeof t, &t, nullptr) ==
         CL_PROFILING_INFO_NOT_AVAILABLE);
  EXPECT(clSetEventCallback(e, CL_QUEUED, seen, nullptr) == CL_INVALID_VALUE);
  EXPECT(clSetEventCallback(e, CL_COMPLETE, nullptr, nullptr) == CL_INVALID_VALUE);
  CL(clReleaseEvent(e));  // unset, with no command behind it
}

int main() {
  Work w;
  infos(w);
  callbacks(w);
  failing(w);
  refused(w);
  Chains chains(w);
  auto *pending = new Pending(w);
  pause_here();
  pending->check();
  chains.check();
  callbacks(w);
  return finish();
}
