// SPDX-License-Identifier: Apache-2.0
//
// The real driver is opened by its absolute path, apart from the program's symbols and bound to its
// own (RTLD_DEEPBIND): its calls of itself must not come back to us, and that it has our name does
// no harm (facts/cuda.md).
#include "libckpt-cuda/driver.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

#include "agent/participant/participant.h"
#include "common/base/log.h"

namespace ckpt::cuda {
namespace {

constexpr const char *kDriverVariable = "CKPT_CUDA_DRIVER";  // ckpt-run says where it is

// Filled by this library's constructor, so no constructor of its own may come behind.
constinit Driver g_driver;

void cannot_load(const std::string &why) { g_driver.why_not = ::strdup(why.c_str()); }

// A program that opened the driver by this very path was led to us (audit/), and the loader has
// noted the path as one of our names.
std::string spelled_otherwise(const std::string &path) {
  size_t slash = path.rfind('/');
  return path.substr(0, slash) + "/." + path.substr(slash);
}

const void *file_of(void *address) {
  Dl_info info{};
  return ::dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

// Where a driver cannot be had every call fails; our own entries for the driver's would be a loop.
void load() {
  const char *path = std::getenv(kDriverVariable);
  if (path == nullptr || *path != '/')
    return cannot_load(fmt::format("{} does not name the CUDA driver", kDriverVariable));
  void *handle = ::dlopen(spelled_otherwise(path).c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (handle == nullptr)
    return cannot_load(fmt::format("the CUDA driver {} cannot be loaded: {}", path, ::dlerror()));
  if (file_of(::dlsym(handle, "cuInit")) == file_of(reinterpret_cast<void *>(&load)))
    return cannot_load(fmt::format("{} leads back to ckpt's own library", path));
  g_driver.path = ::strdup(path);
  for (size_t i = 0; i < kEntries; i++)
    g_real[i] = ::dlsym(handle, entry_info(static_cast<Id>(i)).symbol);
#define X(symbol, type) g_driver.symbol = reinterpret_cast<type>(real_entry(Id::id_##symbol));
  CKPT_CUDA_USED(X)
#undef X
}

// A program that is not under ckpt-run gets the driver as it is.
[[gnu::constructor]] void start() {
  load();
  fill_targets(!agent::session_socket().empty());
}

}  // namespace

const Driver &driver() { return g_driver; }

std::string error_name(CUresult e) {
  const char *name = nullptr;
  if (g_driver.cuGetErrorName == nullptr || g_driver.cuGetErrorName(e, &name) != CUDA_SUCCESS)
    return fmt::format("CUDA error {}", static_cast<int>(e));
  return name;
}

Result<> did(CUresult e, const char *what) {
  if (e == CUDA_SUCCESS) return {};
  return fail("cannot {}: {}", what, error_name(e));
}

}  // namespace ckpt::cuda
