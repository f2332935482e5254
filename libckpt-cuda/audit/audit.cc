// SPDX-License-Identifier: Apache-2.0
//
// libckpt-cuda-audit.so, named by LD_AUDIT: a program that opens NVIDIA's driver by its path gets
// our library instead (rtld-audit(7), la_objsearch). Only our own library gets the driver. The
// loader puts this file into every program under ckpt-run, into a link-map namespace of its own, so
// it uses no C++ library and allocates nothing.
#include <link.h>

#include <cstdlib>
#include <cstring>

namespace {

constexpr const char *kLibraryVariable = "CKPT_CUDA_LIBRARY";

const char *file_of(const char *path) {
  const char *slash = std::strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

bool is_driver(const char *path) {
  const char *file = file_of(path);
  return std::strcmp(file, "libcuda.so.1") == 0 || std::strcmp(file, "libcuda.so") == 0;
}

// Our folder also has libcuda.so, a link to libcuda.so.1.
bool is_ours(const char *path) {
  const char *ours = std::getenv(kLibraryVariable);
  if (ours == nullptr || path == nullptr || !is_driver(path)) return false;
  auto folder = static_cast<std::size_t>(file_of(ours) - ours);
  return file_of(path) == path + folder && std::memcmp(path, ours, folder) == 0;
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] unsigned int la_version(unsigned int version) {
  return version < LAV_CURRENT ? version : LAV_CURRENT;
}

// The cookie says whether this object is our library. Returns 0: symbol bindings are not audited.
[[gnu::visibility("default")]] unsigned int la_objopen(link_map *map, Lmid_t, uintptr_t *cookie) {
  *cookie = is_ours(map->l_name) ? 1 : 0;
  return 0;
}

[[gnu::visibility("default")]] char *la_objsearch(const char *name, uintptr_t *cookie,
                                                  unsigned int flag) {
  bool by_path = flag == LA_SER_ORIG && std::strchr(name, '/') != nullptr;
  const char *ours =
      by_path && *cookie != 1 && is_driver(name) ? std::getenv(kLibraryVariable) : nullptr;
  return const_cast<char *>(ours != nullptr ? ours : name);
}
}
