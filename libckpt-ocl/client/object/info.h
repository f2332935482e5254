// SPDX-License-Identifier: Apache-2.0
//
// Answers of the clGet…Info functions: value, size, and the API's rule for a buffer that is too
// small.
#pragma once

#include <string_view>
#include <vector>

#include "libckpt-ocl/client/object/objects.h"
#include "ring/wire.h"

namespace ckpt::ocl {

// The output parameters of a clGet…Info call.
struct Answer {
  size_t room;
  void *value;
  size_t *needed;

  cl_int bytes(const void *data, size_t size) const;
  cl_int bytes(const Bytes &b) const { return bytes(b.data(), b.size()); }
  template <class T>
  cl_int scalar(T v) const {
    return bytes(&v, sizeof v);
  }
  template <class T>
  cl_int list(const std::vector<T> &v) const {
    return bytes(v.data(), v.size() * sizeof(T));
  }
  cl_int text(std::string_view s) const;  // with its final NUL
};

// Queries the driver. `second` is a further object or number of the query. Answers are cached,
// because programs repeat their queries (hashcat: 15,000 a second). `object` is a number, since the
// object may have been destroyed meanwhile.
cl_int remote_info(InfoOf of, u64 object, u64 second, u32 param, Bytes &value);
inline cl_int remote_info(InfoOf of, const Object &o, u64 second, u32 param, Bytes &value) {
  return remote_info(of, o.number, second, param, value);
}
cl_int remote_info(InfoOf of, const Object &o, u64 second, u32 param, const Answer &out);
// The same, neither from the cache nor into it.
cl_int asked_info(InfoOf of, u64 object, u64 second, u32 param, Bytes &value);
// Drops the cached answers about one object, or about all (nullptr).
void forget_info(const Object *o);

}  // namespace ckpt::ocl
