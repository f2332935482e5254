// SPDX-License-Identifier: Apache-2.0
//
// Programs in an intermediate language (SPIR-V), where the driver supports it.
#include "libckpt-ocl/client/entry/il.h"

#include "libckpt-ocl/client/entry/api_call.h"
#include "libckpt-ocl/client/entry/icd.h"
#include "libckpt-ocl/client/object/create.h"
#include "libckpt-ocl/client/object/info.h"

namespace ckpt::ocl {
namespace {

// Only asked of 3.0 devices: the dispatch table of a 1.2 driver has no slot for the function.
bool any_device_supports_il(const Context &c) {
  return std::any_of(c.devices.begin(), c.devices.end(), [](const Device *d) {
    Bytes value;
    return d->shows_3_0() &&
           remote_info(InfoOf::Device, *d, 0, CL_DEVICE_IL_VERSION, value) == CL_SUCCESS &&
           value.size() > 1;
  });
}

constexpr u16 kConstant = api::spec<&::clSetProgramSpecializationConstant>.op;

}  // namespace

// A build is the last entry that is no constant; the first entry is the program's creation.
std::vector<Bytes> constants_of_build(const Program &p) {
  std::vector<Bytes> before, since;
  for (const LedgerEntry &entry : p.ledger_entries) {
    if (entry.op == kConstant)
      since.push_back(entry.payload);
    else
      before.insert(before.end(), since.begin(), since.end()), since.clear();
  }
  return before;
}

cl_int give_constant(Program &p, Bytes payload) {
  std::memcpy(payload.data(), &p.number, std::min(payload.size(), sizeof p.number));
  cl_int status = link().round_trip(kConstant, 0, payload);
  if (status != CL_SUCCESS) return status;
  std::lock_guard lock(p.mutex);
  p.record(kConstant, std::move(payload));
  return status;
}

}  // namespace ckpt::ocl

namespace ckpt::ocl::entry {

cl_program clCreateProgramWithIL(cl_context context, const void *il, size_t length,
                                 cl_int *errcode) {
  ApiCall call;
  auto *c = object<Context>(context);
  if (!c) return failed<cl_program>(CL_INVALID_CONTEXT, errcode);
  if (!any_device_supports_il(*c)) return failed<cl_program>(CL_INVALID_OPERATION, errcode);
  if (!il || length == 0) return failed<cl_program>(CL_INVALID_VALUE, errcode);
  auto *p = new Program;
  p->context = Ref<Context>(c);
  p->devices = c->devices;
  const auto *bytes = static_cast<const std::byte *>(il);
  p->il.assign(bytes, bytes + length);
  cl_int status = create<&::clCreateProgramWithIL>(p, context, il, length, nullptr);
  return created<cl_program>(p, status, errcode);
}

// The constant takes effect at the next build, so it becomes a ledger entry of the program, in
// order with its builds.
cl_int clSetProgramSpecializationConstant(cl_program program, cl_uint id, size_t size,
                                          const void *value) {
  ApiCall call;
  auto *p = object<Program>(program);
  if (!p || p->il.empty()) return CL_INVALID_PROGRAM;
  if (!value) return CL_INVALID_VALUE;
  return give_constant(*p,
                       encoded<&::clSetProgramSpecializationConstant>(program, id, size, value));
}

}  // namespace ckpt::ocl::entry
