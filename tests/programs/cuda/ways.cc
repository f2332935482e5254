// SPDX-License-Identifier: Apache-2.0
//
// ways linked | FILE: loads the driver by linking to it or with dlopen(FILE). Prints the path of
// the library that was loaded, and "agent" when a ckpt agent runs in the process.
#include <cuda.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

// The agent's thread sets its name shortly after it starts, so callers try several times.
static bool has_agent() {
  for (const auto &task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream in(task.path() / "comm");
    std::string name;
    if (in >> name && name == "ckpt-agent") return true;
  }
  return false;
}

int main(int argc, char **argv) {
  const char *way = argc > 1 ? argv[1] : "linked";
  void *library = std::strcmp(way, "linked") == 0 ? nullptr : dlopen(way, RTLD_NOW);
  if (library == nullptr && std::strcmp(way, "linked") != 0) return 1;
  auto entry = [&](const char *name) {
    return library ? dlsym(library, name) : dlsym(RTLD_DEFAULT, name);
  };
  auto init = reinterpret_cast<CUresult (*)(unsigned)>(entry("cuInit"));
  Dl_info info{};
  if (init == nullptr || dladdr(entry("cuMemAlloc_v2"), &info) == 0) return 1;
  if (init(0) != CUDA_SUCCESS) return 2;
  std::printf("%s\n", info.dli_fname);
  for (int tries = 0; tries < 200; ++tries, usleep(10000))
    if (has_agent()) return std::puts("agent"), 0;
  return 0;
}
