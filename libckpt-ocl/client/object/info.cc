// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/object/info.h"

#include "libckpt-ocl/client/link/link.h"

namespace ckpt::ocl {
namespace {

struct Cache {
  using Key = std::tuple<u64, InfoOf, u64, u32>;
  std::mutex mutex;
  std::map<Key, std::pair<cl_int, Bytes>> answers;
};

Cache &cache() {
  static Cache *c = new Cache;
  return *c;
}

}  // namespace

cl_int Answer::bytes(const void *data, size_t size) const {
  if (value && room < size) return CL_INVALID_VALUE;
  if (value && size > 0) std::memcpy(value, data, size);
  if (needed) *needed = size;
  return CL_SUCCESS;
}

cl_int Answer::text(std::string_view s) const {
  std::string copy(s);
  return bytes(copy.c_str(), copy.size() + 1);
}

cl_int asked_info(InfoOf of, u64 object, u64 second, u32 param, Bytes &value) {
  Writer w;
  w.put(of).put(object).put(second).put(param);
  return link().round_trip(Op::Info, 0, w.bytes(), &value);
}

cl_int remote_info(InfoOf of, u64 object, u64 second, u32 param, Bytes &value) {
  Cache &c = cache();
  Cache::Key key{object, of, second, param};
  {
    std::lock_guard lock(c.mutex);
    if (auto it = c.answers.find(key); it != c.answers.end()) {
      value = it->second.second;
      return it->second.first;
    }
  }
  cl_int status = asked_info(of, object, second, param, value);
  if (status == CL_DEVICE_NOT_AVAILABLE) return status;
  std::lock_guard lock(c.mutex);
  c.answers[key] = {status, value};
  return status;
}

cl_int remote_info(InfoOf of, const Object &o, u64 second, u32 param, const Answer &out) {
  Bytes value;
  cl_int status = remote_info(of, o, second, param, value);
  return status == CL_SUCCESS ? out.bytes(value) : status;
}

void forget_info(const Object *o) {
  Cache &c = cache();
  std::lock_guard lock(c.mutex);
  if (!o) {
    c.answers.clear();
    return;
  }
  auto first = c.answers.lower_bound({o->number, InfoOf{0}, 0, 0});
  auto last = c.answers.lower_bound({o->number + 1, InfoOf{0}, 0, 0});
  c.answers.erase(first, last);
}

}  // namespace ckpt::ocl
