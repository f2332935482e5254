// SPDX-License-Identifier: Apache-2.0
//
// Launches with a global offset, in one to three dimensions, between launches of the same kernel
// without one. Each work-item writes a hash of all that it can ask about its place, which the host
// computes, too. The same must hold in slices (ckpt-run --slice).
#include <array>
#include <cstdint>

#include "cl_test.h"

namespace {

using Numbers = std::array<size_t, 3>;

// The functions that are not inlined ask for themselves.
constexpr const char *kSource = R"(
ulong mixed(ulong hash, ulong number) { return (hash ^ number) * 1099511628211ul; }

__attribute__((noinline)) ulong mixed_ids(ulong h, uint d) {
  h = mixed(mixed(h, get_global_id(d)), get_global_size(d));
  return mixed(h, get_global_offset(d));
}
__attribute__((noinline)) ulong mixed_groups(ulong h, uint d) {
  h = mixed(mixed(h, get_group_id(d)), get_num_groups(d));
  return mixed(mixed(h, get_local_id(d)), get_local_size(d));
}

#define PLACE(name)                                                                              \
  __kernel void name(__global ulong *out) {                                                      \
    ulong h = get_work_dim();                                                                    \
    for (uint d = 0; d < 3; d++) h = mixed_groups(mixed_ids(h, d), d);                           \
    out[LINEAR] = h;                                                                             \
  }
#if __OPENCL_C_VERSION__ >= 200
#define LINEAR get_global_linear_id()
#else
#define ID(d) (get_global_id(d) - get_global_offset(d))
#define LINEAR ((ID(2) * get_global_size(1) + ID(1)) * get_global_size(0) + ID(0))
#endif
PLACE(line)
PLACE(plane)
PLACE(cube)
PLACE(far_cube)
__attribute__((reqd_work_group_size(8, 2, 1))) PLACE(fixed_groups)

__kernel void ids(__global ulong *out) {
  out[get_global_id(0) - get_global_offset(0)] = get_global_id(0) * 3 + get_global_size(0);
}

// Its result does not depend on an offset.
__kernel void offset_free(__global ulong *out) {
  size_t g = (get_group_id(2) * get_num_groups(1) + get_group_id(1)) * get_num_groups(0) +
             get_group_id(0);
  out[g] = g * 31 + get_work_dim();
}
)";

struct Launch {
  cl_uint dims;
  Numbers items, group, offset;
};

uint64_t mixed(uint64_t hash, uint64_t number) { return (hash ^ number) * 1099511628211ull; }

uint64_t expected_at(const Launch &l, const Numbers &at) {
  uint64_t h = l.dims;
  for (size_t d = 0; d < 3; d++) {
    h = mixed(mixed(mixed(h, at[d] + l.offset[d]), l.items[d]), l.offset[d]);
    h = mixed(mixed(h, at[d] / l.group[d]), l.items[d] / l.group[d]);
    h = mixed(mixed(h, at[d] % l.group[d]), l.group[d]);
  }
  return h;
}

class Program {
 public:
  Program() : program_(cl_.build(kSource, newest_language())), out_(cl_.buffer(kBytes)) {}

  std::vector<uint64_t> run(const char *name, const Launch &l, bool driver_chooses_groups = false) {
    std::vector<uint64_t> host(kBytes / sizeof(uint64_t), 0);
    CL(clEnqueueWriteBuffer(cl_.queue, out_, CL_TRUE, 0, kBytes, host.data(), 0, nullptr, nullptr));
    cl_kernel k = cl_.kernel(program_, name);
    CL(clSetKernelArg(k, 0, sizeof out_, &out_));
    bool has_offset = l.offset != Numbers{};
    CL(clEnqueueNDRangeKernel(cl_.queue, k, l.dims, has_offset ? l.offset.data() : nullptr,
                              l.items.data(), driver_chooses_groups ? nullptr : l.group.data(), 0,
                              nullptr, nullptr));
    CL(clEnqueueReadBuffer(cl_.queue, out_, CL_TRUE, 0, kBytes, host.data(), 0, nullptr, nullptr));
    CL(clReleaseKernel(k));
    return host;
  }

  void check(const char *name, const Launch &l) {
    std::vector<uint64_t> found = run(name, l);
    size_t i = 0, wrong = 0;
    for (size_t z = 0; z < l.items[2]; z++)
      for (size_t y = 0; y < l.items[1]; y++)
        for (size_t x = 0; x < l.items[0]; x++) wrong += found[i++] != expected_at(l, {x, y, z});
    std::printf("%s: %zu of %zu work-items are wrong\n", name, wrong, i);
    EXPECT(wrong == 0 && found[i] == 0);
  }

 private:
  static constexpr size_t kBytes = size_t{1} << 16;

  // Which has get_global_linear_id.
  const char *newest_language() const {
    char version[256] = {};
    CL(clGetDeviceInfo(cl_.device, CL_DEVICE_VERSION, sizeof version, version, nullptr));
    int major = 0;
    EXPECT(std::sscanf(version, "OpenCL %d", &major) == 1);
    std::printf("OpenCL %d\n", major);
    return major >= 3 ? "-cl-std=CL3.0" : major == 2 ? "-cl-std=CL2.0" : "";
  }

  Cl cl_;
  cl_program program_;
  cl_mem out_;
};

void check_all(Program &p) {
  p.check("line", {1, {96, 1, 1}, {8, 1, 1}, {5, 0, 0}});
  p.check("line", {1, {96, 1, 1}, {8, 1, 1}, {}});
  p.check("line", {1, {1000, 1, 1}, {10, 1, 1}, {size_t{1} << 40, 0, 0}});
  p.check("plane", {2, {24, 30, 1}, {4, 3, 1}, {7, 1001, 0}});
  p.check("plane", {2, {24, 30, 1}, {4, 3, 1}, {0, 3, 0}});
  p.check("plane", {2, {24, 30, 1}, {4, 3, 1}, {}});
  p.check("plane", {2, {24, 30, 1}, {4, 3, 1}, {0x7fffffff, 0x7ffffffe, 0}});
  p.check("cube", {3, {12, 10, 8}, {3, 2, 2}, {1, 20, 333}});
  p.check("cube", {3, {12, 10, 8}, {3, 2, 2}, {}});
  p.check("cube", {3, {13, 7, 5}, {1, 1, 1}, {0, 0, 9}});
  p.check("far_cube", {3, {12, 10, 8}, {3, 2, 2}, {size_t{1} << 40, 0, 0xfffffffff}});
  p.check("fixed_groups", {2, {32, 16, 1}, {8, 2, 1}, {3, 4, 0}});
}

void check_without_groups(Program &p) {
  for (size_t n : {1, 7, 1000, 4099}) {
    std::vector<uint64_t> found = p.run("ids", {1, {n, 1, 1}, {}, {17, 0, 0}}, true);
    size_t right = 0;
    while (right < n && found[right] == (right + 17) * 3 + n) right++;
    EXPECT(right == n);
  }
}

// In slices there is no room for these numbers, so the launch runs whole.
void check_too_large(Program &p) {
  Launch l{3, {8, 8, 8}, {2, 2, 2}, {size_t{1} << 60, 0, 0}};
  std::vector<uint64_t> found = p.run("offset_free", l);
  for (size_t g = 0; g < 64; g++) EXPECT(found[g] == g * 31 + 3);
}

}  // namespace

int main() {
  Program p;
  check_all(p);
  check_without_groups(p);
  check_too_large(p);
  return finish();
}
