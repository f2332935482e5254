// SPDX-License-Identifier: Apache-2.0
//
// libnvrtc.so.13 in front of the toolkit's. A program that compiles for a real architecture (sm_90)
// loads the result of nvrtcGetCUBIN, which is machine code that the software device cannot run.
// Here nvrtcGetCUBIN returns the PTX of the same program, which cuModuleLoadData accepts as well.
// All other functions are the toolkit's own.
#include <dlfcn.h>
#include <limits.h>
#include <nvrtc.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#define NVRTC_API extern "C" __attribute__((visibility("default")))

// Each function of the table is a jump to the real one.
extern "C" {
#define NVRTC_ENTRY(name) void *softcuda_real_##name __attribute__((visibility("hidden"), used));
#include "softcuda/nvrtc/entries.api"
#undef NVRTC_ENTRY
}
#define NVRTC_ENTRY(name)                                           \
  asm(".text\n.globl " #name "\n.type " #name ", @function\n" #name \
      ":\nendbr64\njmp *softcuda_real_" #name "(%rip)\n.size " #name ", . - " #name "\n");
#include "softcuda/nvrtc/entries.api"
#undef NVRTC_ENTRY

namespace {

constexpr const char *kName = "libnvrtc.so.13";

std::string own_file() {
  Dl_info info{};
  char real[PATH_MAX];
  if (dladdr(reinterpret_cast<void *>(&own_file), &info) == 0 || info.dli_fname == nullptr)
    return {};
  return realpath(info.dli_fname, real) == nullptr ? std::string() : real;
}

// The folders in which the loader would look for the library, then the toolkit's usual ones.
std::vector<std::string> folders() {
  std::vector<std::string> list;
  void *program = dlopen(nullptr, RTLD_LAZY);
  Dl_serinfo size{};
  if (program != nullptr && dlinfo(program, RTLD_DI_SERINFOSIZE, &size) == 0) {
    std::vector<char> memory(size.dls_size);
    auto *info = reinterpret_cast<Dl_serinfo *>(memory.data());
    dlinfo(program, RTLD_DI_SERINFOSIZE, info);
    if (dlinfo(program, RTLD_DI_SERINFO, info) == 0)
      for (unsigned i = 0; i < info->dls_cnt; ++i) list.emplace_back(info->dls_serpath[i].dls_name);
  }
  for (const char *variable : {"CUDA_HOME", "CUDA_PATH"})
    if (const char *home = std::getenv(variable)) list.push_back(std::string(home) + "/lib64");
  list.insert(list.end(), {"/usr/local/cuda/lib64", "/usr/local/cuda-13.0/lib64"});
  return list;
}

void *open_real() {
  std::string own = own_file();
  for (const std::string &folder : folders()) {
    char real[PATH_MAX];
    std::string path = folder + "/" + kName;
    if (realpath(path.c_str(), real) == nullptr || own == real) continue;
    if (void *handle = dlopen(real, RTLD_NOW | RTLD_LOCAL)) return handle;
  }
  std::fprintf(
      stderr,
      "softcuda: cannot find the toolkit's %s behind the one of the software device; put its "
      "folder into LD_LIBRARY_PATH\n",
      kName);
  return nullptr;
}

nvrtcResult missing() { return NVRTC_ERROR_INTERNAL_ERROR; }

__attribute__((constructor)) void find_real() {
  void *handle = open_real();
#define NVRTC_ENTRY(name)                                                    \
  softcuda_real_##name = handle == nullptr ? nullptr : dlsym(handle, #name); \
  if (softcuda_real_##name == nullptr) softcuda_real_##name = reinterpret_cast<void *>(&missing);
#include "softcuda/nvrtc/entries.api"
#undef NVRTC_ENTRY
}

}  // namespace

NVRTC_API nvrtcResult nvrtcGetCUBINSize(nvrtcProgram program, size_t *bytes) {
  return nvrtcGetPTXSize(program, bytes);
}
NVRTC_API nvrtcResult nvrtcGetCUBIN(nvrtcProgram program, char *cubin) {
  return nvrtcGetPTX(program, cubin);
}
