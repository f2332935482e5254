// SPDX-License-Identifier: Apache-2.0
//
// Programs in an intermediate language (SPIR-V), where the driver takes it.
#include "libckpt-ocl/client/entry/icd.h"
#include "libckpt-ocl/client/object/create.h"
#include "libckpt-ocl/client/object/info.h"

namespace ckpt::ocl {
namespace {

// CL_INVALID_OPERATION where none does; a driver of 1.2 has no place for the function either.
bool some_device_takes_il(const Context &c) {
  return std::any_of(c.devices.begin(), c.devices.end(), [](const Device *d) {
    Bytes value;
    return d->shows_3_0() &&
           remote_info(InfoOf::Device, *d, 0, CL_DEVICE_IL_VERSION, value) == CL_SUCCESS &&
           value.size() > 1;
  });
}

}  // namespace
}  // namespace ckpt::ocl

namespace ckpt::ocl::entry {

cl_program clCreateProgramWithIL(cl_context context, const void *il, size_t length,
                                 cl_int *errcode) {
  Entry entry;
  auto *c = object<Context>(context);
  if (!c) return failed<cl_program>(CL_INVALID_CONTEXT, errcode);
  if (!some_device_takes_il(*c)) return failed<cl_program>(CL_INVALID_OPERATION, errcode);
  if (!il || length == 0) return failed<cl_program>(CL_INVALID_VALUE, errcode);
  auto *p = new Program;
  p->context = Ref<Context>(c);
  p->devices = c->devices;
  const auto *bytes = static_cast<const std::byte *>(il);
  p->il.assign(bytes, bytes + length);
  cl_int status = create<&::clCreateProgramWithIL>(p, context, il, length, nullptr);
  return created<cl_program>(p, status, errcode);
}

// Counts from the next build on, so it is a step of the program's ledger_entries like that.
cl_int clSetProgramSpecializationConstant(cl_program program, cl_uint id, size_t size,
                                          const void *value) {
  Entry entry;
  auto *p = object<Program>(program);
  if (!p || p->il.empty()) return CL_INVALID_PROGRAM;
  if (!value) return CL_INVALID_VALUE;
  constexpr auto kFunction = &::clSetProgramSpecializationConstant;
  Bytes payload = encoded<kFunction>(program, id, size, value);
  cl_int status = link().round_trip(api::spec<kFunction>.op, 0, payload);
  if (status != CL_SUCCESS) return status;
  std::lock_guard lock(p->mutex);
  p->record(api::spec<kFunction>.op, std::move(payload));
  return CL_SUCCESS;
}

}  // namespace ckpt::ocl::entry
