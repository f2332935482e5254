// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "libckpt-ocl/client/link/link.h"
#include "libckpt-ocl/client/link/payload.h"

namespace ckpt::ocl {

// The client's side of the codec: an object is encoded as its number.
struct ClientSide {
  u64 number(u8, const void *handle) const {
    return handle ? static_cast<const Object *>(handle)->number : 0;
  }
};

template <auto Fn, class... A>
void encode(Payload &payload, A... args) {
  api::encode<Fn>(payload, ClientSide{}, args...);
}
template <auto Fn, class... A>
Bytes encoded(A... args) {
  Payload payload;
  encode<Fn>(payload, args...);
  return payload.copy();
}

// Creates the proxy's side of `o` and records the command, so that a restore can repeat it.
inline cl_int create(Object *o, u16 op, Bytes payload) {
  cl_int status = link().round_trip(op, o->number, payload);
  if (status != CL_SUCCESS) return status;
  o->record(op, std::move(payload));
  registry().add(o);
  return CL_SUCCESS;
}

template <auto Fn, class... A>
cl_int create(Object *o, A... args) {
  return create(o, api::spec<Fn>.op, encoded<Fn>(args...));
}

// The return value of a clCreate… function: the handle, or NULL with an error.
template <class H>
H created(Object *o, cl_int status, cl_int *errcode) {
  if (errcode) *errcode = status;
  if (status == CL_SUCCESS) return handle<H>(o);
  if (o) destroy(o);
  return nullptr;
}

template <class H>
H failed(cl_int status, cl_int *errcode) {
  return created<H>(nullptr, status, errcode);
}

}  // namespace ckpt::ocl
