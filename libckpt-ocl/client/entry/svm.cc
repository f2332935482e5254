// SPDX-License-Identifier: Apache-2.0
//
// Shared virtual memory: what is there, and allocations (client/svm/).
#include "libckpt-ocl/client/entry/svm.h"

#include <bit>

#include "common/base/log.h"
#include "libckpt-ocl/client/entry/api_call.h"
#include "libckpt-ocl/client/entry/icd.h"
#include "libckpt-ocl/client/object/info.h"
#include "libckpt-ocl/client/object/memory_flags.h"
#include "libckpt-ocl/client/svm/allocations.h"

namespace ckpt::ocl {
namespace {

// The largest type of OpenCL C is a vector of 16 numbers of 8 bytes.
constexpr size_t kDefaultAlignment = 128;

u64 device_number(const Device &d, cl_device_info param) {
  Bytes answer;
  u64 v = 0;
  if (remote_info(InfoOf::Device, d, 0, param, answer) != CL_SUCCESS) return 0;
  std::memcpy(&v, answer.data(), std::min(sizeof v, answer.size()));
  return v;
}

void warn_once(std::string_view function) {
  static std::mutex mutex;
  static auto *const kWarned = new std::set<std::string_view>;
  std::lock_guard lock(mutex);
  if (kWarned->insert(function).second)
    log::warn(
        "{} is not supported here: a device of the context does not work on the program's memory "
        "(docs/OPENCL.md)",
        function);
}

bool are_flags_valid(cl_svm_mem_flags flags, cl_device_svm_capabilities has) {
  constexpr cl_svm_mem_flags kFine = CL_MEM_SVM_FINE_GRAIN_BUFFER, kAtomics = CL_MEM_SVM_ATOMICS;
  cl_svm_mem_flags access = flags & kKernelAccess;
  if ((flags & ~(kKernelAccess | kFine | kAtomics)) || (access & (access - 1))) return false;
  if ((flags & kFine) && !(has & CL_DEVICE_SVM_FINE_GRAIN_BUFFER)) return false;
  return !(flags & kAtomics);
}

// The most that all devices allow in one allocation.
size_t largest_allocation(const Context &c) {
  u64 least = ~u64{0};
  for (const Device *d : c.devices)
    least = std::min(least, device_number(*d, CL_DEVICE_MAX_MEM_ALLOC_SIZE));
  return least;
}

// Pointers are checked, and kernels reach all of the memory anyway.
cl_int check_pointers(size_t size, const void *value) {
  if (size == 0 || size % sizeof(void *) != 0) return CL_INVALID_VALUE;
  const auto *pointers = static_cast<void *const *>(value);
  for (size_t i = 0; i < size / sizeof(void *); i++)
    if (!allocations().find(pointers[i])) return CL_INVALID_VALUE;
  return CL_SUCCESS;
}

}  // namespace

cl_device_svm_capabilities shown_svm_capabilities(const Device &d) {
  if (!d.shows_3_0() || !d.present || link().compiles_elsewhere()) return 0;
  return device_number(d, CL_DEVICE_SVM_CAPABILITIES);
}

cl_device_svm_capabilities svm_capabilities(const Context &c, std::string_view function) {
  if (!link().usable()) return 0;
  cl_device_svm_capabilities all = ~cl_device_svm_capabilities{0};
  for (const Device *d : c.devices) all &= shown_svm_capabilities(*d);
  if (all == 0) warn_once(function);
  return all;
}

}  // namespace ckpt::ocl

namespace ckpt::ocl::entry {

void *clSVMAlloc(cl_context context, cl_svm_mem_flags flags, size_t size, cl_uint alignment) {
  ApiCall call;
  auto *c = object<Context>(context);
  if (!c) return nullptr;
  cl_device_svm_capabilities has = svm_capabilities(*c, "clSVMAlloc");
  size_t aligned = alignment == 0 ? kDefaultAlignment : alignment;
  if (has == 0 || !are_flags_valid(flags, has) || !std::has_single_bit(aligned) ||
      aligned > Allocations::kMostAligned)
    return nullptr;
  size_t largest = largest_allocation(*c);
  return size == 0 || size > largest ? nullptr : allocations().allocate(*c, size, aligned, largest);
}

// Without a proxy, as in the child of a fork, another thread of the parent may hold a lock.
void clSVMFree(cl_context context, void *at) {
  ApiCall call;
  if (!object<Context>(context) || !at || !link().usable()) return;
  if (!allocations().free(at))
    log::warn("clSVMFree got {}, which clSVMAlloc has not returned; nothing was freed",
              static_cast<const void *>(at));
  link().flush_releases();
}

cl_int clSetKernelExecInfo(cl_kernel kernel, cl_kernel_exec_info name, size_t size,
                           const void *value) {
  ApiCall call;
  auto *k = object<Kernel>(kernel);
  if (!k) return CL_INVALID_KERNEL;
  if (svm_capabilities(*k->program->context, "clSetKernelExecInfo") == 0)
    return CL_INVALID_OPERATION;
  if (!value) return CL_INVALID_VALUE;
  if (name == CL_KERNEL_EXEC_INFO_SVM_PTRS) return check_pointers(size, value);
  if (name != CL_KERNEL_EXEC_INFO_SVM_FINE_GRAIN_SYSTEM || size != sizeof(cl_bool))
    return CL_INVALID_VALUE;
  return *static_cast<const cl_bool *>(value) ? CL_INVALID_OPERATION : CL_SUCCESS;
}

}  // namespace ckpt::ocl::entry
