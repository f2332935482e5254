// SPDX-License-Identifier: Apache-2.0
#include "softcuda/driver/state/strict.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <string>
#include <thread>

namespace ckpt::softcuda::driver {
namespace {

constexpr int kDefaultVersion = 13000;
constexpr std::chrono::milliseconds kLatePause{10};

struct Branch {
  int branch, version;
};
// CUDA release notes, "CUDA Driver" table.
constexpr Branch kBranches[] = {{570, 12080}, {575, 12090}, {580, 13000}, {590, 13010}};

int read_version() {
  const char *set = std::getenv("CKPT_SOFTCUDA_DRIVER");
  if (set == nullptr || *set == '\0') return kDefaultVersion;
  int number = std::atoi(set);
  for (const Branch &b : kBranches)
    if (b.branch == number) return b.version;
  return number >= 10000 ? number : kDefaultVersion;
}

[[noreturn]] void hang() {
  for (;;) ::pause();
}

// A fault, not a signal that is sent: the calling thread may block signals.
void crash() {
  volatile int *volatile nowhere = nullptr;
  *nowhere = 0;
}

std::string ordered_effect(const char *file, std::string_view call) {
  std::ifstream in(file);
  for (std::string name, effect; in >> name >> effect;)
    if (name == call) return effect;
  return {};
}

}  // namespace

bool loads_lazily() {
  static const bool kLazy = [] {
    const char *set = std::getenv("CUDA_MODULE_LOADING");
    return set == nullptr || std::string_view(set) != "EAGER";
  }();
  return kLazy;
}

bool rdma_capable() {
  const char *set = std::getenv("CKPT_SOFTCUDA_RDMA");
  return set == nullptr || std::string_view(set) != "0";
}

int driver_version() {
  static const int kVersion = read_version();
  return kVersion;
}

Fault fault_at(const char *call) {
  const char *file = std::getenv("CKPT_SOFTCUDA_FAULTS");
  if (file == nullptr || *file == '\0') return {};
  std::string effect = ordered_effect(file, call);
  for (; effect == "late"; effect = ordered_effect(file, call))
    std::this_thread::sleep_for(kLatePause);
  if (effect == "hang") hang();
  if (effect == "crash") crash();
  if (effect == "nothing") return {true, CUDA_SUCCESS};
  return {false, static_cast<CUresult>(std::atoi(effect.c_str()))};
}

}  // namespace ckpt::softcuda::driver
