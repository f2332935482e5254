// SPDX-License-Identifier: Apache-2.0
//
// The face to the ICD loader. The loader finds us by OCL_ICD_VENDORS, asks for the platforms, and
// from then on calls through the dispatch table that every handle carries.
#include "libckpt-ocl/client/icd.h"

#include <CL/cl_egl.h>
#include <CL/cl_gl.h>
#include <CL/cl_icd.h>

#include <atomic>
#include <tuple>

#include "common/base/log.h"

namespace ckpt::ocl {
namespace {

// A function that is not kept: says so once, by name, and returns an error.
template <auto Fn, const auto &Name, const auto &Why>
struct Refused;
template <class R, class... A, R (*Fn)(A...), const auto &Name, const auto &Why>
struct Refused<Fn, Name, Why> {
  static R call(A... a) {
    static std::atomic<bool> said{false};
    if (!said.exchange(true)) log::warn("{} is not supported: {}", Name, Why);
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

#define KEPT(fn, ...)
#define LOCAL(fn, how)
#define REFUSED(fn, why)                      \
  constexpr std::string_view name_##fn = #fn; \
  constexpr std::string_view why_##fn = why;
#include "libckpt-ocl/opencl.api"
#undef REFUSED

constexpr _cl_icd_dispatch make_dispatch() {
  _cl_icd_dispatch d{};
#undef KEPT
#undef LOCAL
#define KEPT(fn, ...) d.fn = &entry::fn;
#define LOCAL(fn, how) d.fn = &entry::fn;
#define REFUSED(fn, why) d.fn = &Refused<&::fn, name_##fn, why_##fn>::call;
#include "libckpt-ocl/opencl.api"
#undef KEPT
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

// How the loader finds the only two functions that it does not call through the table.
void *clGetExtensionFunctionAddress(const char *name) {
  std::string_view n = name ? name : "";
  if (n == "clIcdGetPlatformIDsKHR") return reinterpret_cast<void *>(&platform_ids);
  if (n == "clGetPlatformInfo") return reinterpret_cast<void *>(&entry::clGetPlatformInfo);
  return nullptr;
}

}  // namespace ckpt::ocl::entry

// What the library exports, and nothing else.
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
