// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/entry/api_call.h"
#include "libckpt-ocl/client/entry/icd.h"
#include "libckpt-ocl/client/link/link.h"
#include "libckpt-ocl/client/object/info.h"

namespace ckpt::ocl {
namespace {

// The driver of a device without sub-groups may lack the function: OpenCL 1.2 has no slot for it.
bool has_sub_groups(const Device &d) {
  Bytes value;
  cl_uint most = 0;
  if (remote_info(InfoOf::Device, d, 0, CL_DEVICE_MAX_NUM_SUB_GROUPS, value) == CL_SUCCESS)
    std::memcpy(&most, value.data(), std::min(value.size(), sizeof most));
  return d.shows_3_0() && most > 0;
}

// Whether the query's input has a valid size.
bool is_valid_input(cl_kernel_sub_group_info param, size_t bytes) {
  switch (param) {
    case CL_KERNEL_MAX_SUB_GROUP_SIZE_FOR_NDRANGE:
    case CL_KERNEL_SUB_GROUP_COUNT_FOR_NDRANGE:
      return bytes == sizeof(size_t) || bytes == 2 * sizeof(size_t) || bytes == 3 * sizeof(size_t);
    case CL_KERNEL_LOCAL_SIZE_FOR_SUB_GROUP_COUNT: return bytes == sizeof(size_t);
    default: return bytes == 0;
  }
}

}  // namespace
}  // namespace ckpt::ocl

namespace ckpt::ocl::entry {

cl_int clGetKernelSubGroupInfo(cl_kernel kernel, cl_device_id device,
                               cl_kernel_sub_group_info param, size_t input_bytes,
                               const void *input, size_t room, void *value, size_t *needed) {
  ApiCall call;
  auto *k = object<Kernel>(kernel);
  if (!k) return CL_INVALID_KERNEL;
  auto *d = object<Device>(device);
  if (!d && !device && k->program->devices.size() == 1) d = k->program->devices.front();
  if (!d || !k->program->built_for(d)) return CL_INVALID_DEVICE;
  if (!has_sub_groups(*d)) return CL_INVALID_OPERATION;
  if (!input) input_bytes = 0;
  if (!is_valid_input(param, input_bytes)) return CL_INVALID_VALUE;
  Writer w;
  w.put(k->number).put(d->number).put(u32{param}).blob(view(input, input_bytes));
  Bytes answer;
  cl_int status = link().round_trip(Op::KernelSubGroup, 0, w.bytes(), &answer);
  return status == CL_SUCCESS ? Answer{room, value, needed}.bytes(answer) : status;
}

}  // namespace ckpt::ocl::entry
