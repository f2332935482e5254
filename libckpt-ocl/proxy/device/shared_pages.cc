// SPDX-License-Identifier: Apache-2.0
//
// The specification allows a driver to keep a copy of such memory until it is mapped
// (clCreateBuffer, CL_MEM_USE_HOST_PTR), and no query says what a driver does. So a kernel runs
// twice on memory that the host changes in between without a map.
#include "libckpt-ocl/proxy/device/shared_pages.h"

#include <array>
#include <cstdlib>
#include <map>
#include <memory>

#include "agent/protocol.h"
#include "libckpt-ocl/proxy/device/device_test.h"

namespace ckpt::ocl {
namespace {

constexpr const char *kPageKernel =
    "__kernel void ckpt_page_test(__global uint *at) { at[get_global_id(0)] += 7; }";
constexpr size_t kPage = 4096, kWords = 2 * kPage / sizeof(cl_uint);
// The first pages have the alignment of a program's buffer, but not of the pages themselves.
struct alignas(kPage) TestPages {
  std::array<cl_uint, kWords> words;
};

bool passes(DeviceTest &test, TestPages &pages, cl_uint value) {
  pages.words.fill(value);
  if (!test.run(kWords)) return false;
  for (const cl_uint &word : pages.words)
    if (*const_cast<const volatile cl_uint *>(&word) != value + 7) return false;
  return true;
}

bool page_test(cl_device_id device) {
  if (!(device_number(device, CL_DEVICE_TYPE) & CL_DEVICE_TYPE_CPU)) return false;
  auto pages = std::make_unique<TestPages>();
  DeviceTest test(device, kPageKernel, "ckpt_page_test");
  return test.made() &&
         test.set_buffer(std::as_writable_bytes(std::span(pages->words))) == CL_SUCCESS &&
         passes(test, *pages, 3) && passes(test, *pages, 1000);
}

}  // namespace

bool works_on_host_pages(cl_device_id device) {
  if (::secure_getenv(protocol::kIsolatedVariable) != nullptr) return false;
  static auto *answers = new std::map<cl_device_id, bool>;
  auto it = answers->find(device);
  if (it == answers->end()) it = answers->emplace(device, page_test(device)).first;
  return it->second;
}

}  // namespace ckpt::ocl
