// SPDX-License-Identifier: Apache-2.0
//
// How the real driver is loaded. It has our file name and exports the same symbols, so three things
// must not happen:
//
//   The driver's calls of its own entries reach us. RTLD_DEEPBIND makes it prefer its own symbols,
//   and RTLD_LOCAL keeps them out of the program's (dlopen(3)).
//
//   The loader takes our library for the driver. It compares paths: a program that opens the driver
//   by its absolute path is led to us (audit/), and the loader then remembers that path as one of
//   our names. So we open the driver by another spelling of its path, with "/./".
//
//   CKPT_CUDA_DRIVER names our own library. Our entries in the driver's place would call
//   themselves, so load() compares the files that the addresses belong to (dladdr(3)).
#include "libckpt-cuda/entry/driver.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

#include "agent/participant/participant.h"
#include "common/base/log.h"
#include "driver-checkpoint/checkpoint_entries.h"

namespace ckpt::cuda {
namespace {

constexpr const char *kDriverVariable = "CKPT_CUDA_DRIVER";  // an absolute path, set by ckpt-run

// constinit: this library's constructor fills it, and a later constructor of its own would clear
// it.
constinit Driver g_driver;

std::string spelled_otherwise(const std::string &path) {
  size_t slash = path.rfind('/');
  return path.substr(0, slash) + "/." + path.substr(slash);
}

const void *file_of(void *address) {
  Dl_info info{};
  return ::dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

void look_up_entries(void *handle) {
  for (size_t i = 0; i < kEntries; i++)
    g_real[i] = ::dlsym(handle, entry_info(static_cast<Id>(i)).symbol);
#define X(symbol, type) g_driver.symbol = reinterpret_cast<type>(real_entry(Id::id_##symbol));
  CKPT_CUDA_USED(X)
#undef X
#define X(symbol, type) \
  checkpoint_entries().symbol = reinterpret_cast<type>(real_entry(Id::id_##symbol));
  CKPT_CHECKPOINT_ENTRIES(X)
#undef X
}

// Where it fails, all entries return CUDA_ERROR_NOT_FOUND.
Result<> load() {
  const char *path = std::getenv(kDriverVariable);
  if (path == nullptr || *path != '/')
    return fail("{} is not set to the absolute path of the CUDA driver", kDriverVariable);
  void *handle = ::dlopen(spelled_otherwise(path).c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);
  if (handle == nullptr) return fail("cannot load the CUDA driver {}: {}", path, ::dlerror());
  if (file_of(::dlsym(handle, "cuInit")) == file_of(reinterpret_cast<void *>(&file_of)))
    return fail("{} names ckpt's own library, not the CUDA driver: {}", kDriverVariable, path);
  checkpoint_entries().path = g_driver.path = ::strdup(path);
  look_up_entries(handle);
  return {};
}

// A program that does not run under ckpt-run gets the driver as it is.
[[gnu::constructor]] void start() {
  if (Result<> loaded = load(); !loaded) log::warn("{}", loaded.error().text());
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

Result<> as_result(CUresult e, const char *what) {
  if (e == CUDA_SUCCESS) return {};
  return fail("cannot {}: {}", what, error_name(e));
}

}  // namespace ckpt::cuda
