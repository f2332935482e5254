// SPDX-License-Identifier: Apache-2.0
//
// Slices need global offsets of 64 bits that reach the kernel unchanged (slicing/opencl_source.cc).
// One group of eight work-items in the middle of a large grid tells whether they do.
#include "libckpt-ocl/proxy/device/slice_test.h"

#include <array>
#include <cstdlib>

#include <fmt/format.h>

#include "libckpt-ocl/proxy/device/quirks.h"
#include "libckpt-ocl/proxy/serve/objects.h"
#include "libckpt-ocl/proxy/serve/sources.h"
#include "slicing/opencl_source.h"

namespace ckpt::ocl {
namespace {

// Each work-item writes to a place that does not depend on what is tested.
constexpr const char *kSource = R"(
__kernel void ckpt_slice_test(__global ulong *out) {
  __global ulong *o =
      out + ((get_local_id(2) * 2 + get_local_id(1)) * 2 + get_local_id(0)) * 15;
  for (uint d = 0; d < 3; d++) {
    o[d * 5] = get_global_id(d);
    o[d * 5 + 1] = get_group_id(d);
    o[d * 5 + 2] = get_global_size(d);
    o[d * 5 + 3] = get_num_groups(d);
    o[d * 5 + 4] = get_global_offset(d);
  }
}
)";

// Of PoCL's variable, under a name that does not count yet: setenv() could move the environment
// while the driver's threads read it. PoCL remembers a value that it has read, but not that there
// was none.
char entry[] = "_OCL_WORK_GROUP_SPECIALIZATION=0";

constexpr size_t kGroup = 2, kItems = kGroup * kGroup * kGroup, kNumbers = 15;
constexpr std::array<u64, 3> kGroups{70'000, 3'000'000, 1'000'000};
constexpr slicing::Dim kBase{66'001, 2'500'001, 900'001};
using Numbers = std::array<cl_ulong, kItems * kNumbers>;

Numbers expected() {
  Numbers all{};
  cl_ulong *o = all.data();
  for (size_t item = 0; item < kItems; item++)
    for (size_t d = 0; d < 3; d++) {
      *o++ = kBase[d] * kGroup + (item >> d) % kGroup;
      *o++ = kBase[d];
      *o++ = kGroups[d] * kGroup;
      *o++ = kGroups[d];
      *o++ = 0;
    }
  return all;
}

// The offset of the group in the middle.
std::array<size_t, 3> offset() {
  slicing::NdRange range{3};
  for (size_t d = 0; d < 3; d++) range.items[d] = kGroups[d] * kGroup, range.group[d] = kGroup;
  return slicing::slice_offset(range, kBase);
}

// The driver's objects of one test.
class Test {
 public:
  explicit Test(cl_device_id device) : device_(device) {
    context_ = ::clCreateContext(nullptr, 1, &device, nullptr, nullptr, nullptr);
  }
  Test(const Test &) = delete;
  ~Test() {
    release_handle(Kind::Mem, out_);
    release_handle(Kind::Kernel, kernel_);
    release_handle(Kind::Program, program_);
    release_handle(Kind::Queue, queue_);
    release_handle(Kind::Context, context_);
  }

  // Returns the driver's first error.
  cl_int run(Numbers &numbers) {
    cl_int e = CL_DEVICE_NOT_AVAILABLE;
    if (context_ == nullptr) return e;
    queue_ = ::clCreateCommandQueue(context_, device_, 0, &e);
    if (e != CL_SUCCESS) return e;
    program_ =
        built_from_source(context_, {device_}, slicing::sliced_source(kSource, 0), "", {}, e);
    if (e != CL_SUCCESS) return e;
    kernel_ = ::clCreateKernel(program_, "ckpt_slice_test", &e);
    if (e != CL_SUCCESS) return e;
    out_ = ::clCreateBuffer(context_, CL_MEM_COPY_HOST_PTR, sizeof numbers, numbers.data(), &e);
    return e == CL_SUCCESS ? launch(numbers) : e;
  }

 private:
  cl_int launch(Numbers &numbers) {
    constexpr size_t kSizes[] = {kGroup, kGroup, kGroup};
    if (cl_int e = ::clSetKernelArg(kernel_, 0, sizeof out_, &out_); e != CL_SUCCESS) return e;
    if (cl_int e = ::clEnqueueNDRangeKernel(queue_, kernel_, 3, offset().data(), kSizes, kSizes, 0,
                                            nullptr, nullptr);
        e != CL_SUCCESS)
      return e;
    return ::clEnqueueReadBuffer(queue_, out_, CL_TRUE, 0, sizeof numbers, numbers.data(), 0,
                                 nullptr, nullptr);
  }

  cl_device_id device_;
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
  cl_program program_ = nullptr;
  cl_kernel kernel_ = nullptr;
  cl_mem out_ = nullptr;
};

}  // namespace

void prepare_slice_test() { ::putenv(entry); }

std::string why_no_slices(cl_device_id device) {
  if (assumes_small_offsets(device)) entry[0] = 'P';
  Numbers numbers{};
  if (cl_int e = Test(device).run(numbers); e != CL_SUCCESS)
    return fmt::format("its driver refuses a launch in slices: OpenCL error {}", e);
  return numbers == expected() ? "" : "its driver does not pass global offsets of 64 bits";
}

}  // namespace ckpt::ocl
