// SPDX-License-Identifier: Apache-2.0
//
// A random history of objects: each is created, retained, used and released in any order, also
// while its commands run and while other objects need it, as the seed determines. A test suspends,
// resumes, dumps and moves the program meanwhile. Each buffer has one value in all its words, which
// the program knows, so it checks what it reads. In the end everything is released, and then
// everything must be gone: the destructor callbacks of buffers, images and contexts say so.
//
//   ocl-history SEED [STEPS]      without STEPS: until the file $CKPT_TEST_GO exists
#define CL_TARGET_OPENCL_VERSION 300
#include <algorithm>
#include <atomic>
#include <random>

#include "cl_test.h"

static std::atomic<int> g_alive{0};  // buffers, images and contexts with a callback

static void CL_CALLBACK mem_gone(cl_mem, void *) { g_alive--; }
static void CL_CALLBACK context_gone(cl_context, void *) { g_alive--; }
static void CL_CALLBACK finished(cl_event, cl_int, void *count) {
  --*static_cast<std::atomic<int> *>(count);
}

static const char *const kSource =
    "__kernel void add(__global int *d, int v) { d[get_global_id(0)] += v; }\n"
    "__kernel void slow(__global int *d, int v) { int i = get_global_id(0), x = d[i];\n"
    "  for (int k = 0; k < 2000; k++) x = x * 1664525 + k; d[i] += v + (x == 7 && v == 0); }\n";
static const char *const kHeader = "#define STEP 1\n";
static const char *const kIncluding =
    "#include \"step.h\"\n__kernel void add(__global int *d, int v) { d[get_global_id(0)] += v * "
    "STEP; }\n";

constexpr size_t kWords = 256;

class History : Cl {
 public:
  explicit History(unsigned seed) : random_(seed) {
    watch(context);
    queues_.push_back(queue);
    for (int i = 0; i < 3; i++) make_queue();
    for (int i = 0; i < 4; i++) make_buffer();
    programs_.push_back(build(kSource));
    for (int i = 0; i < 3; i++) make_kernel();
  }

  void step() {
    using Action = void (History::*)();
    static constexpr Action kActions[] = {
        &History::make_queue,   &History::drop_queue,  &History::make_buffer,
        &History::drop_buffer,  &History::make_part,   &History::make_image,
        &History::make_kernel,  &History::drop_kernel, &History::make_program,
        &History::drop_program, &History::link,        &History::launch,
        &History::launch,       &History::launch,      &History::launch,
        &History::burst,        &History::check,       &History::check,
        &History::check,        &History::hold,        &History::let_go,
        &History::sample,       &History::dangle,      &History::retain,
        &History::other_context};
    (this->*kActions[pick(std::size(kActions))])();
  }

  int end() {
    while (held_ != nullptr) let_go();
    for (cl_command_queue q : queues_) CL(clFinish(q));
    for (Buffer &b : buffers_) check(b);
    for (cl_event e : last_) CL(clReleaseEvent(e));
    for (cl_event e : events_) CL(clReleaseEvent(e));
    for (cl_kernel k : kernels_) CL(clReleaseKernel(k));
    for (cl_program p : programs_) CL(clReleaseProgram(p));
    for (Buffer &b : buffers_) CL(clReleaseMemObject(b.mem));
    for (cl_command_queue q : queues_) CL(clReleaseCommandQueue(q));
    CL(clReleaseContext(context));
    for (int i = 0; i < 500 && (g_alive != 0 || callbacks_ != 0); i++) ::usleep(20'000);
    EXPECT(callbacks_ == 0);
    EXPECT(g_alive == 0);
    return finish();
  }

 private:
  struct Buffer {
    cl_mem mem;
    int value;
    bool part;  // shares its memory with another one: only released
  };

  size_t pick(size_t n) { return std::uniform_int_distribution<size_t>(0, n - 1)(random_); }
  bool chance() { return pick(2) == 0; }
  template <class T>
  T take(std::vector<T> &from) {
    size_t i = pick(from.size());
    T taken = from[i];
    from[i] = from.back();
    from.pop_back();
    return taken;
  }

  void watch(cl_context c) {
    if (clSetContextDestructorCallback(c, context_gone, nullptr) == CL_SUCCESS) g_alive++;
  }
  cl_mem watched(cl_mem m) {
    g_alive++;
    CL(clSetMemObjectDestructorCallback(m, mem_gone, nullptr));
    return m;
  }

  void make_queue() {
    if (queues_.size() >= 8) return;
    cl_int status;
    queues_.push_back(clCreateCommandQueue(context, device, 0, &status));
    CL(status);
  }
  // With whatever it was given.
  void drop_queue() {
    if (queues_.size() > 2) CL(clReleaseCommandQueue(take(queues_)));
  }
  void make_buffer() {
    if (buffers_.size() >= 12) return;
    int value = static_cast<int>(pick(1000));
    std::vector<int> words(kWords, value);
    buffers_.push_back(
        {watched(buffer(kWords * 4, CL_MEM_COPY_HOST_PTR, words.data())), value, false});
  }
  void drop_buffer() {
    if (buffers_.size() > 3) CL(clReleaseMemObject(take(buffers_).mem));
  }
  void make_part() {
    cl_int status;
    const Buffer &b = buffers_[pick(buffers_.size())];
    cl_buffer_region whole{0, kWords * 4};
    cl_mem part = clCreateSubBuffer(b.mem, 0, CL_BUFFER_CREATE_TYPE_REGION, &whole, &status);
    if (status == CL_SUCCESS) buffers_.push_back({watched(part), 0, true});
  }
  void make_image() {
    cl_int status;
    cl_image_format format{CL_RGBA, CL_UNSIGNED_INT8};
    cl_image_desc desc{};
    desc.image_type = CL_MEM_OBJECT_IMAGE2D;
    desc.image_width = desc.image_height = 16;
    cl_mem image = clCreateImage(context, CL_MEM_READ_WRITE, &format, &desc, nullptr, &status);
    if (status == CL_SUCCESS) buffers_.push_back({watched(image), 0, true});
  }
  void make_program() {
    if (programs_.size() < 4) programs_.push_back(build(kSource));
  }
  void drop_program() {
    if (programs_.size() > 1) CL(clReleaseProgram(take(programs_)));
  }
  // Two programs that include each other, and a third that is linked from one of them.
  void link() {
    if (programs_.size() >= 4 || pick(3) != 0) return;
    cl_int status;
    const char *texts[] = {kHeader, kIncluding}, *name = "step.h", *other = "other.h";
    cl_program header = clCreateProgramWithSource(context, 1, &texts[0], nullptr, &status);
    cl_program unit = clCreateProgramWithSource(context, 1, &texts[1], nullptr, &status);
    CL(clCompileProgram(unit, 0, nullptr, "", 1, &header, &name, nullptr, nullptr));
    CL(clCompileProgram(header, 0, nullptr, "", 1, &unit, &other, nullptr, nullptr));
    cl_program linked = clLinkProgram(context, 0, nullptr, "", 1, &unit, nullptr, nullptr, &status);
    CL(clReleaseProgram(header));
    CL(clReleaseProgram(unit));
    CL(status);
    programs_.push_back(linked);
  }
  void make_kernel() {
    if (kernels_.size() < 8) kernels_.push_back(kernel(programs_[pick(programs_.size())], "add"));
  }
  void drop_kernel() {
    if (kernels_.size() > 2) CL(clReleaseKernel(take(kernels_)));
  }

  // Every launch is ordered behind the ones before it by waiting, or by its queue.
  void launch() {
    Buffer &b = own_buffer();
    cl_kernel k = kernels_[pick(kernels_.size())];
    run(k, b, queues_[pick(queues_.size())]);
  }
  void run(cl_kernel k, Buffer &b, cl_command_queue q) {
    int v = static_cast<int>(pick(100));
    CL(clSetKernelArg(k, 0, sizeof b.mem, &b.mem));
    CL(clSetKernelArg(k, 1, sizeof v, &v));
    size_t words = kWords;
    cl_event done = nullptr;
    std::vector<cl_event> waits(last_.begin(), last_.end());
    CL(clEnqueueNDRangeKernel(q, k, 1, nullptr, &words, nullptr, static_cast<cl_uint>(waits.size()),
                              waits.empty() ? nullptr : waits.data(), &done));
    b.value += v;
    for (cl_event e : last_) CL(clReleaseEvent(e));
    last_ = {done};
    if (chance()) {
      callbacks_++;
      CL(clSetEventCallback(done, CL_COMPLETE, finished, &callbacks_));
    }
  }
  // As a program that ends a phase: much work, a wait, and the queue is released.
  void burst() {
    if (pick(4) != 0 || queues_.size() < 3 || held_ != nullptr) return;
    cl_command_queue q = take(queues_);
    cl_kernel k = kernel(build_once(), "slow");
    Buffer &b = own_buffer();
    for (int i = 0; i < 24; i++) run(k, b, q);
    CL(clReleaseKernel(k));
    if (chance()) CL(clFinish(q));
    CL(clReleaseCommandQueue(q));
  }
  cl_program build_once() {
    for (cl_program p : programs_) {
      cl_int status;
      cl_kernel k = clCreateKernel(p, "slow", &status);
      if (status != CL_SUCCESS) continue;
      CL(clReleaseKernel(k));
      return p;
    }
    programs_.push_back(build(kSource));
    return programs_.back();
  }

  Buffer &own_buffer() {
    for (;;) {
      Buffer &b = buffers_[pick(buffers_.size())];
      if (!b.part) return b;
      if (buffers_.size() > 12 || std::ranges::none_of(buffers_, [](auto &x) { return !x.part; })) {
        CL(clReleaseMemObject(b.mem));
        // Without a command: while an event is held, a wait would be for ever.
        std::vector<int> zeros(kWords);
        b = {watched(buffer(kWords * 4, CL_MEM_COPY_HOST_PTR, zeros.data())), 0, false};
      }
    }
  }
  void check() {
    if (held_ == nullptr) check(own_buffer());
  }
  void check(Buffer &b) {
    if (b.part) return;
    std::vector<int> words(kWords);
    CL(clEnqueueReadBuffer(queues_[pick(queues_.size())], b.mem, CL_TRUE, 0, kWords * 4,
                           words.data(), static_cast<cl_uint>(last_.size()),
                           last_.empty() ? nullptr : last_.data(), nullptr));
    for (int w : words)
      if (w != b.value) {
        std::printf("a buffer holds %d, not %d\n", w, b.value);
        g_failures++;
        b.value = w;
        return;
      }
  }

  // Everything behind a user event is deferred.
  void hold() {
    if (held_ != nullptr) return;
    cl_int status;
    held_ = clCreateUserEvent(context, &status);
    CL(status);
    CL(clRetainEvent(held_));
    last_.push_back(held_);
  }
  void let_go() {
    if (held_ == nullptr) return;
    CL(clSetUserEventStatus(held_, CL_COMPLETE));
    CL(clReleaseEvent(held_));
    held_ = nullptr;
  }
  void sample() {
    cl_int status;
    cl_sampler s = clCreateSampler(context, CL_FALSE, CL_ADDRESS_CLAMP, CL_FILTER_NEAREST, &status);
    if (status != CL_SUCCESS) return;
    CL(clRetainSampler(s));
    CL(clReleaseSampler(s));
    CL(clReleaseSampler(s));
  }
  // A kernel does not keep its argument: the buffer is gone, and a launch is an error.
  void dangle() {
    cl_kernel k = kernel(programs_[0], "add");
    cl_mem m = watched(buffer(64));
    int before = g_alive, v = 1;
    size_t one = 1;
    CL(clSetKernelArg(k, 0, sizeof m, &m));
    CL(clSetKernelArg(k, 1, sizeof v, &v));
    CL(clReleaseMemObject(m));
    EXPECT(g_alive == before - 1);
    cl_int status =
        clEnqueueNDRangeKernel(queues_[0], k, 1, nullptr, &one, nullptr, 0, nullptr, nullptr);
    EXPECT(status == CL_INVALID_KERNEL_ARGS);
    kernels_.push_back(k);
    CL(clReleaseKernel(take(kernels_)));
  }
  void retain() {
    cl_command_queue q = queues_[pick(queues_.size())];
    CL(clRetainCommandQueue(q));
    CL(clReleaseCommandQueue(q));
    if (last_.empty()) return;
    CL(clRetainEvent(last_[0]));
    events_.push_back(last_[0]);
    if (events_.size() > 20) CL(clReleaseEvent(take(events_)));
  }
  // All of it is released before its commands have run.
  void other_context() {
    if (pick(4) != 0) return;
    cl_int status;
    cl_context c = clCreateContext(nullptr, 1, &device, nullptr, nullptr, &status);
    CL(status);
    watch(c);
    cl_command_queue q = clCreateCommandQueue(c, device, 0, &status);
    CL(status);
    cl_mem m = watched(clCreateBuffer(c, CL_MEM_READ_WRITE, 1 << 16, nullptr, &status));
    int v = 5;
    for (int i = 0; i < 10; i++)
      CL(clEnqueueFillBuffer(q, m, &v, 4, 0, 1 << 16, 0, nullptr, nullptr));
    CL(clReleaseMemObject(m));
    CL(clReleaseContext(c));
    CL(clReleaseCommandQueue(q));
  }

  std::mt19937 random_;
  std::vector<cl_command_queue> queues_;
  std::vector<Buffer> buffers_;
  std::vector<cl_program> programs_;
  std::vector<cl_kernel> kernels_;
  std::vector<cl_event> last_, events_;
  cl_event held_ = nullptr;
  std::atomic<int> callbacks_{0};
};

int main(int argc, char **argv) {
  unsigned seed = argc > 1 ? static_cast<unsigned>(std::atoi(argv[1])) : 1;
  long steps = argc > 2 ? std::atol(argv[2]) : 0;
  const char *go = std::getenv("CKPT_TEST_GO");
  History history(seed);
  std::printf("READY\n");
  std::fflush(stdout);
  for (long i = 0; steps != 0 ? i < steps : i < 100 || (go && ::access(go, F_OK) != 0); i++) {
    history.step();
    if (steps != 0) continue;
    ::usleep(500);
    if (i % 25 == 24) std::printf("STEPPING\n");
    std::fflush(stdout);
  }
  return history.end();
}
