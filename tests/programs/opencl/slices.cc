// SPDX-License-Identifier: Apache-2.0
//
// Kernels that read their place in the grid in every way, in launches of one to three dimensions,
// in queues in order and without order, with arguments that change while a launch is under way. The
// output is the same whether they run whole or in slices (ckpt-run --slice).
#include <algorithm>

#include "cl_test.h"

namespace {

constexpr const char *kSource = R"(
// Definitions for another compiler.
#ifdef __CUDACC__
#define get_group_id(d) blockIdx.x
#undef get_global_size
#endif
// A macro that makes kernels, and functions that are not inlined.
#define NUMBERS(name, first) \
  __kernel void name(__global int *out) { out[get_global_id(0)] = first + (int)get_group_id(0); }
NUMBERS(from_ten, 10)
__attribute__((noinline)) int deep(int x) { return x + get_group_id(0) * 7 + get_num_groups(0); }

__kernel void place(__global int *out, int factor) {
  size_t i = (get_global_id(2) * get_global_size(1) + get_global_id(1)) * get_global_size(0) +
             get_global_id(0);
  size_t g = (get_group_id(2) * get_num_groups(1) + get_group_id(1)) * get_num_groups(0) +
             get_group_id(0);
  out[i] = (int)(i * factor + g * 31 + get_local_id(0) + get_global_offset(1) + get_work_dim());
}

__kernel void tiled(__global const int *a, __global int *out, __local int *tile) {
  int l = get_local_id(0), n = get_local_size(0);
  tile[l] = a[get_group_id(0) * n + l];
  barrier(CLK_LOCAL_MEM_FENCE);
  out[get_group_id(0) * n + l] = tile[n - 1 - l] * 3 + deep(l);
}

__kernel void strided(__global int *out, int n) {
  for (int i = get_global_id(0); i < n; i += get_global_size(0)) out[i] = i * 3 + 1;
}

// The group that arrives last adds up what the others have left.
__kernel void last_group(__global const int *in, volatile __global int *parts,
                         volatile __global int *arrived, __global int *out) {
  __local int last;
  atomic_add(&parts[get_group_id(0)], in[get_global_id(0)]);
  barrier(CLK_GLOBAL_MEM_FENCE | CLK_LOCAL_MEM_FENCE);
  if (get_local_id(0) == 0) last = atomic_inc(arrived) == (int)get_num_groups(0) - 1;
  barrier(CLK_LOCAL_MEM_FENCE);
  if (!last || get_local_id(0) != 0) return;
  int sum = 0;
  for (size_t i = 0; i < get_num_groups(0); i++) sum += parts[i];
  *out = sum;
}

// Each group waits for the sum of the one before it.
__kernel void look_back(volatile __global int *sums) {
  int g = get_group_id(0), before = 1;
  if (get_local_id(0) != 0) return;
  if (g > 0) {
    while ((before = atomic_add(&sums[g - 1], 0)) == 0) {
    }
  }
  atomic_xchg(&sums[g], before + g);
}

__attribute__((reqd_work_group_size(8, 2, 1))) __kernel void fixed_groups(__global int *out) {
  out[get_global_id(1) * get_global_size(0) + get_global_id(0)] =
      get_group_id(0) * 100 + get_group_id(1);
}

// Counts how often a queue went from one launch to another.
__kernel void note_launch(int launch, volatile __global int *last, volatile __global int *changes) {
  if (get_local_id(0) == 0 && atomic_xchg(last, launch) != launch) atomic_inc(changes);
}

__kernel void grow(__global float *x, float by) { x[get_global_id(0)] += by * get_group_id(0); }
)";

constexpr const char *kOwnMacro = R"(
#define get_group_id(d) (get_global_id(d) / get_local_size(d) + 1)
__kernel void own_macro(__global int *out) { out[get_global_id(0)] = get_group_id(0); }
)";

constexpr size_t kNumbers = 1 << 16;

class Programs {
 public:
  explicit Programs(const Cl &cl) : cl_(cl), program_(cl.build(kSource)) {
    out_ = cl.buffer(kNumbers * sizeof(int));
    in_ = cl.buffer(kNumbers * sizeof(int));
    std::vector<int> numbers(kNumbers);
    for (size_t i = 0; i < kNumbers; i++) numbers[i] = static_cast<int>(i * 7 % 1000);
    CL(clEnqueueWriteBuffer(cl.queue, in_, CL_TRUE, 0, kNumbers * sizeof(int), numbers.data(), 0,
                            nullptr, nullptr));
    clear();
  }

  void clear() {
    int zero = 0;
    CL(clEnqueueFillBuffer(cl_.queue, out_, &zero, sizeof zero, 0, kNumbers * sizeof(int), 0,
                           nullptr, nullptr));
  }

  template <class... A>
  cl_kernel with(const char *name, const A &...arguments) {
    cl_kernel k = cl_.kernel(program_, name);
    cl_uint i = 0;
    auto set = [&](const auto &value) { CL(clSetKernelArg(k, i++, sizeof value, &value)); };
    (set(arguments), ...);
    return k;
  }

  void run(cl_kernel k, std::vector<size_t> global, std::vector<size_t> local = {}) {
    CL(clEnqueueNDRangeKernel(cl_.queue, k, static_cast<cl_uint>(global.size()), nullptr,
                              global.data(), local.empty() ? nullptr : local.data(), 0, nullptr,
                              nullptr));
  }

  // Prints a hash of the output, and clears it.
  void report(const char *what) {
    std::vector<int> host = cl_.read_ints(out_, kNumbers);
    unsigned long long hash = 14695981039346656037ull;
    for (int v : host) hash = (hash ^ static_cast<unsigned>(v)) * 1099511628211ull;
    std::printf("%s %016llx\n", what, hash);
    clear();
  }

  const Cl &cl_;
  cl_program program_;
  cl_mem in_ = nullptr, out_ = nullptr;
};

// llvmpipe leaves every loop after 65535 iterations (LP_MAX_TGSI_LOOP_ITERATIONS in Mesa).
bool can_wait_in_loop(const Cl &cl) {
  char name[64] = {};
  CL(clGetPlatformInfo(cl.platform, CL_PLATFORM_NAME, sizeof name, name, nullptr));
  return std::strcmp(name, "rusticl") != 0;
}

void run_kernels(Programs &p) {
  p.run(p.with("from_ten", p.out_), {4096}, {64});
  p.report("from_ten");
  for (int factor : {3, 5}) {
    p.run(p.with("place", p.out_, factor), {40, 28, 6}, {8, 4, 2});
    p.report("place");
  }
  p.run(p.with("place", p.out_, 7), {96, 100}, {16, 5});
  p.report("place 2");
  cl_kernel tiled = p.with("tiled", p.in_, p.out_);
  CL(clSetKernelArg(tiled, 2, 32 * sizeof(int), nullptr));
  p.run(tiled, {4096}, {32});
  p.report("tiled");
  p.run(p.with("strided", p.out_, 50000), {1024}, {64});
  p.report("strided");
  p.run(p.with("fixed_groups", p.out_), {64, 32}, {8, 2});
  p.report("fixed_groups");
  cl_mem parts = p.cl_.buffer(65 * sizeof(int)), arrived = p.cl_.buffer(sizeof(int));
  int zero = 0;
  for (cl_mem m : {parts, arrived})
    CL(clEnqueueFillBuffer(p.cl_.queue, m, &zero, 4, 0, 4, 0, nullptr, nullptr));
  CL(clEnqueueFillBuffer(p.cl_.queue, parts, &zero, 4, 0, 65 * 4, 0, nullptr, nullptr));
  p.run(p.with("last_group", p.in_, parts, arrived, p.out_), {64 * 32}, {32});
  p.report("last_group");
  if (can_wait_in_loop(p.cl_)) {
    p.run(p.with("look_back", p.out_), {100 * 4}, {4});
    p.report("look_back");
  }
}

// Launches without a local size: the driver chooses the work-groups. The output does not depend on
// its choice.
void run_without_groups(Programs &p) {
  for (size_t n : {1, 7, 1000, 4099}) {
    p.run(p.with("strided", p.out_, 30000), {n});
    p.report("strided");
  }
}

// Before the first launch without one.
void run_with_offset(Programs &p) {
  size_t offset = 128, global = 512, local = 32;
  CL(clEnqueueNDRangeKernel(p.cl_.queue, p.with("from_ten", p.out_), 1, &offset, &global, &local, 0,
                            nullptr, nullptr));
  p.report("offset");
}

// The arguments are those of the call, also if they are set again at once.
void change_arguments(Programs &p) {
  cl_kernel k = p.with("place", p.out_, 1);
  for (int factor = 1; factor <= 20; factor++) {
    CL(clSetKernelArg(k, 1, sizeof factor, &factor));
    p.run(k, {64, 64}, {8, 8});
  }
  p.report("arguments");
}

// Two threads of work in one queue in order: a launch begins when the one before has ended.
void run_in_order(Programs &p) {
  cl_mem last = p.cl_.buffer(4), changes = p.cl_.buffer(4);
  int zero = 0;
  CL(clEnqueueFillBuffer(p.cl_.queue, last, &zero, 4, 0, 4, 0, nullptr, nullptr));
  CL(clEnqueueFillBuffer(p.cl_.queue, changes, &zero, 4, 0, 4, 0, nullptr, nullptr));
  for (int launch = 1; launch <= 10; launch++)
    p.run(p.with("note_launch", launch, last, changes), {2048}, {32});
  std::printf("changes %d\n", p.cl_.read_ints(changes, 1)[0]);
}

// Without order, events alone decide: each launch doubles what the one before has left. The time
// stamps of a launch are those of all its slices.
void run_without_order(const Cl &in_order) {
  cl_command_queue_properties offered = 0;
  CL(clGetDeviceInfo(in_order.device, CL_DEVICE_QUEUE_PROPERTIES, sizeof offered, &offered,
                     nullptr));
  if (!(offered & CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE)) return;
  Cl cl(CL_QUEUE_OUT_OF_ORDER_EXEC_MODE_ENABLE | CL_QUEUE_PROFILING_ENABLE);
  cl_program program = cl.build(kSource);
  constexpr size_t kItems = 8192, kLocal = 64;
  cl_mem m = cl.buffer(kItems * sizeof(float));
  float zero = 0;
  cl_event before;
  CL(clEnqueueFillBuffer(cl.queue, m, &zero, sizeof zero, 0, kItems * sizeof zero, 0, nullptr,
                         &before));
  cl_kernel grow = cl.kernel(program, "grow");
  CL(clSetKernelArg(grow, 0, sizeof m, &m));
  cl_ulong ended = 0;
  for (int i = 1; i <= 8; i++) {
    float by = static_cast<float>(i);
    CL(clSetKernelArg(grow, 1, sizeof by, &by));
    cl_event done;
    CL(clEnqueueNDRangeKernel(cl.queue, grow, 1, nullptr, &kItems, &kLocal, 1, &before, &done));
    CL(clReleaseEvent(before));
    before = done;
    if (i != 5) continue;
    CL(clWaitForEvents(1, &done));
    cl_ulong stamps[4];
    cl_profiling_info names[] = {CL_PROFILING_COMMAND_QUEUED, CL_PROFILING_COMMAND_SUBMIT,
                                 CL_PROFILING_COMMAND_START, CL_PROFILING_COMMAND_END};
    for (int s = 0; s < 4; s++)
      CL(clGetEventProfilingInfo(done, names[s], sizeof stamps[s], &stamps[s], nullptr));
    EXPECT(std::is_sorted(stamps, stamps + 4));
    EXPECT(stamps[3] > ended);
    ended = stamps[3];
  }
  std::vector<float> x(kItems);
  CL(clEnqueueReadBuffer(cl.queue, m, CL_TRUE, 0, kItems * sizeof zero, x.data(), 1, &before,
                         nullptr));
  bool right = true;
  for (size_t i = 0; i < kItems; i++) {
    size_t group = i / kLocal;
    right = right && x[i] == 36.0f * static_cast<float>(group);
  }
  EXPECT(right);
}

void run_with_own_macro(Programs &p) {
  size_t global = 1024, local = 32;
  cl_kernel k = p.cl_.kernel(p.cl_.build(kOwnMacro), "own_macro");
  CL(clSetKernelArg(k, 0, sizeof p.out_, &p.out_));
  CL(clEnqueueNDRangeKernel(p.cl_.queue, k, 1, nullptr, &global, &local, 0, nullptr, nullptr));
  p.report("own_macro");
}

// Errors that the specification reports at once, if the driver finds them.
void refuse(Programs &p) {
  cl_kernel k = p.with("from_ten", p.out_);
  size_t global = 1 << 20, local = 1 << 20;
  cl_uint dims[] = {1, 4};
  for (cl_uint d : dims)
    std::printf("refused %d\n", clEnqueueNDRangeKernel(p.cl_.queue, k, d, nullptr, &global, &local,
                                                       0, nullptr, nullptr));
}

}  // namespace

int main() {
  Cl cl;
  Programs p(cl);
  run_with_offset(p);
  run_kernels(p);
  run_without_groups(p);
  change_arguments(p);
  run_in_order(p);
  run_without_order(cl);
  run_with_own_macro(p);
  refuse(p);
  return finish();
}
