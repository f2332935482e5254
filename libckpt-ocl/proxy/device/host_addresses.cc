// SPDX-License-Identifier: Apache-2.0
//
// The kernel gets a pointer into the middle of a page, and finds there another one, to memory that
// the driver has never heard of. It says which address it got, and writes through the other one.
#include "libckpt-ocl/proxy/device/host_addresses.h"

#include <map>
#include <memory>

#include "libckpt-ocl/proxy/device/device_test.h"
#include "libckpt-ocl/proxy/device/pointer_argument.h"
#include "libckpt-ocl/proxy/device/shared_pages.h"

namespace ckpt::ocl {
namespace {

constexpr const char *kAddressKernel =
    "__kernel void ckpt_address_test(__global ulong *at) {"
    "  at[1] = (ulong)at;"
    "  *(__global ulong *)at[0] += 7;"
    "}";

struct alignas(4096) AddressPage {
  volatile cl_ulong words[512];
};

bool address_test(cl_device_id device) {
  if (!works_on_host_pages(device) || device_number(device, CL_DEVICE_ADDRESS_BITS) != 64)
    return false;
  DeviceTest test(device, kAddressKernel, "ckpt_address_test");
  auto argument = std::make_unique<AddressPage>(), other = std::make_unique<AddressPage>();
  volatile cl_ulong *at = &argument->words[9], *far = &other->words[300];
  at[0] = reinterpret_cast<uintptr_t>(far);
  *far = 1000;
  std::span<cl_ulong> given{const_cast<cl_ulong *>(at), 400};
  if (!test.made() || test.set_pointer(std::as_writable_bytes(given)) != CL_SUCCESS || !test.run(1))
    return false;
  return at[1] == reinterpret_cast<uintptr_t>(at) && *far == 1007;
}

}  // namespace

bool works_at_host_addresses(cl_device_id device) {
  static auto *answers = new std::map<cl_device_id, bool>;
  auto it = answers->find(device);
  if (it == answers->end()) it = answers->emplace(device, address_test(device)).first;
  return it->second;
}

cl_device_svm_capabilities svm_capabilities(cl_device_id device) {
  return works_at_host_addresses(device)
             ? CL_DEVICE_SVM_COARSE_GRAIN_BUFFER | CL_DEVICE_SVM_FINE_GRAIN_BUFFER
             : 0;
}

}  // namespace ckpt::ocl
