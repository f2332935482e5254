// SPDX-License-Identifier: Apache-2.0
//
// The specification allows a driver to keep a copy of such memory until it is mapped
// (clCreateBuffer, CL_MEM_USE_HOST_PTR), and no query says what a driver does. So a kernel runs
// twice on memory that the host changes in between without a map.
#include "libckpt-ocl/proxy/device/shared_pages.h"

#include <array>
#include <map>

#include "libckpt-ocl/proxy/device/real_devices.h"
#include "libckpt-ocl/proxy/serve/objects.h"
#include "libckpt-ocl/proxy/serve/sources.h"

namespace ckpt::ocl {
namespace {

constexpr const char *kPageKernel =
    "__kernel void ckpt_page_test(__global uint *at) { at[get_global_id(0)] += 7; }";
constexpr size_t kPage = 4096, kWords = 2 * kPage / sizeof(cl_uint);
// The first pages have the alignment of a program's buffer, but not of the pages themselves.
struct alignas(kPage) TestPages {
  std::array<cl_uint, kWords> words;
};

// The driver's objects of one test.
class PageTest {
 public:
  explicit PageTest(cl_device_id device) : device_(device) {
    context_ = ::clCreateContext(nullptr, 1, &device, nullptr, nullptr, nullptr);
  }
  PageTest(const PageTest &) = delete;
  ~PageTest() {
    release_handle(Kind::Mem, mem_);
    release_handle(Kind::Kernel, kernel_);
    release_handle(Kind::Program, program_);
    release_handle(Kind::Queue, queue_);
    release_handle(Kind::Context, context_);
  }

  bool passes(TestPages &pages) { return make(pages) && round(pages, 3) && round(pages, 1000); }

 private:
  bool make(TestPages &pages) {
    cl_int e = CL_DEVICE_NOT_AVAILABLE;
    if (context_) queue_ = ::clCreateCommandQueue(context_, device_, 0, &e);
    if (e == CL_SUCCESS) program_ = built_from_source(context_, {device_}, kPageKernel, "", {}, e);
    if (e == CL_SUCCESS) kernel_ = ::clCreateKernel(program_, "ckpt_page_test", &e);
    if (e == CL_SUCCESS)
      mem_ = ::clCreateBuffer(context_, CL_MEM_USE_HOST_PTR, sizeof pages, &pages, &e);
    return e == CL_SUCCESS && ::clSetKernelArg(kernel_, 0, sizeof mem_, &mem_) == CL_SUCCESS;
  }
  bool round(TestPages &pages, cl_uint value) {
    pages.words.fill(value);
    if (::clEnqueueNDRangeKernel(queue_, kernel_, 1, nullptr, &kWords, nullptr, 0, nullptr,
                                 nullptr) != CL_SUCCESS ||
        ::clFinish(queue_) != CL_SUCCESS)
      return false;
    for (const cl_uint &word : pages.words)
      if (*const_cast<const volatile cl_uint *>(&word) != value + 7) return false;
    return true;
  }

  cl_device_id device_;
  cl_context context_ = nullptr;
  cl_command_queue queue_ = nullptr;
  cl_program program_ = nullptr;
  cl_kernel kernel_ = nullptr;
  cl_mem mem_ = nullptr;
};

bool page_test(cl_device_id device) {
  if (!(device_number(device, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU)) return false;
  auto pages = std::make_unique<TestPages>();
  return PageTest(device).passes(*pages);
}

}  // namespace

bool works_on_host_pages(cl_device_id device) {
  static auto *answers = new std::map<cl_device_id, bool>;
  auto it = answers->find(device);
  if (it == answers->end()) it = answers->emplace(device, page_test(device)).first;
  return it->second;
}

}  // namespace ckpt::ocl
