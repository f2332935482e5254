// SPDX-License-Identifier: Apache-2.0
//
// The interface to the ICD loader (cl_khr_icd). The loader finds this library by OCL_ICD_VENDORS,
// queries the platforms, and then calls through the dispatch table that every handle carries.
#include "libckpt-ocl/client/entry/icd.h"

#include <CL/cl_egl.h>
#include <CL/cl_gl.h>
#include <CL/cl_icd.h>

#include <atomic>
#include <tuple>

#include "common/base/log.h"

namespace ckpt::ocl {
namespace {

// An unsupported function: names itself once in the log and returns an error.
template <auto Fn, const auto &Name, const auto &Why>
struct Refused;
template <class R, class... A, R (*Fn)(A...), const auto &Name, const auto &Why>
struct Refused<Fn, Name, Why> {
  static R call(A... a) {
    static std::atomic<bool> logged{false};
    if (!logged.exchange(true)) log::warn("{} is not supported: {}", Name, Why);
    std::tuple<A...> args{a...};
    if constexpr (sizeof...(A) > 0) {
      auto last = std::get<sizeof...(A) - 1>(args);
      if constexpr (std::is_pointer_v<R> && std::is_same_v<decltype(last), cl_int *>)
        if (last) *last = CL_INVALID_OPERATION;
    }
    if constexpr (std::is_pointer_v<R>)
      return nullptr;
    else if constexpr (!std::is_void_v<R>)
      return CL_INVALID_OPERATION;
  }
};

#define FORWARDED(fn, ...)
#define LOCAL(fn, how)
#define REFUSED(fn, why)                      \
  constexpr std::string_view name_##fn = #fn; \
  constexpr std::string_view why_##fn = why;
#include "ring/opencl.api"
#undef REFUSED

constexpr _cl_icd_dispatch make_dispatch() {
  _cl_icd_dispatch d{};
#undef FORWARDED
#undef LOCAL
#define FORWARDED(fn, ...) d.fn = &entry::fn;
#define LOCAL(fn, how) d.fn = &entry::fn;
#define REFUSED(fn, why) d.fn = &Refused<&::fn, name_##fn, why_##fn>::call;
#include "ring/opencl.api"
#undef FORWARDED
#undef LOCAL
#undef REFUSED
  return d;
}

constexpr _cl_icd_dispatch g_dispatch = make_dispatch();

}  // namespace

const _cl_icd_dispatch *icd_dispatch() { return &g_dispatch; }

}  // namespace ckpt::ocl

namespace ckpt::ocl::entry {

cl_int clGetPlatformIDs(cl_uint n, cl_platform_id *platforms, cl_uint *count) {
  return platform_ids(n, platforms, count);
}

void *clGetExtensionFunctionAddressForPlatform(cl_platform_id, const char *) { return nullptr; }

// The loader finds its two functions here that it does not call through the table.
void *clGetExtensionFunctionAddress(const char *name) {
  std::string_view n = name ? name : "";
  if (n == "clIcdGetPlatformIDsKHR") return reinterpret_cast<void *>(&platform_ids);
  if (n == "clGetPlatformInfo") return reinterpret_cast<void *>(&entry::clGetPlatformInfo);
  return nullptr;
}

}  // namespace ckpt::ocl::entry

// The only functions that the library exports.
extern "C" {
[[gnu::visibility("default")]] void *clGetExtensionFunctionAddress(const char *name) {
  return ckpt::ocl::entry::clGetExtensionFunctionAddress(name);
}
[[gnu::visibility("default")]] cl_int clIcdGetPlatformIDsKHR(cl_uint num_entries,
                                                             cl_platform_id *platforms,
                                                             cl_uint *num_platforms) {
  return ckpt::ocl::platform_ids(num_entries, platforms, num_platforms);
}
}
