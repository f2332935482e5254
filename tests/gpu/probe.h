// SPDX-License-Identifier: Apache-2.0
//
// Asks a real driver what docs/CUDA.md lists as not known on hardware, one question a process, so
// that a call that hangs or crashes costs one answer. The driver is opened directly, without any
// library of ours.
#pragma once

// With this, cuda.h does not rename functions by macros (cuMemAlloc to cuMemAlloc_v2).
#define __CUDA_API_VERSION_INTERNAL 1
#include <cuda.h>
#include <cudaTypedefs.h>
#include <dlfcn.h>

#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

namespace probe {

inline constexpr int kSkipped = 77;  // exit code: this machine cannot answer
inline constexpr size_t kBytes = 64u << 20;

void *library();

// driver<PFN_cuInit_v2000>("cuInit")(0)
template <class F>
F driver(const char *name) {
  auto f = reinterpret_cast<F>(dlsym(library(), name));
  if (f != nullptr) return f;
  std::printf("the driver has no %s\n", name);
  std::exit(1);
}

// Prints the error and ends the process.
void check(CUresult e, const char *what);
#define CALL(name, version, ...) ::probe::driver<PFN_##name##_v##version>(#name)(__VA_ARGS__)
#define CHECKED(name, version, ...) ::probe::check(CALL(name, version, __VA_ARGS__), #name)
// Symbols with another name than the function: cuMemAlloc_v2.
#define CALL_AS(symbol, name, version, ...) \
  ::probe::driver<PFN_##name##_v##version>(#symbol)(__VA_ARGS__)
#define CHECKED_AS(symbol, name, version, ...) \
  ::probe::check(CALL_AS(symbol, name, version, __VA_ARGS__), #symbol)

[[noreturn]] void skip(const char *why);
[[noreturn]] void fail(const char *why);
std::string error_name(CUresult e);
double seconds();

// cuInit, and the primary context of device 0.
void start();

// Virtual memory management, in units of kBytes.
struct Mapped {
  CUdeviceptr at = 0;
  CUmemGenericAllocationHandle handle = 0;
};
CUmemAllocationProp on_device(int device = 0);
CUdeviceptr reserve(size_t bytes, CUdeviceptr at = 0);
void map(Mapped &m, int device = 0);
void unmap(Mapped &m);
void fill(CUdeviceptr p, unsigned value);
bool holds(CUdeviceptr p, unsigned value);

// The driver's checkpoint of this process.
struct Times {
  double out = 0, back = 0;
};
void leave();                                                     // Lock, Checkpoint
CUresult restore(const std::vector<CUcheckpointGpuPair> &pairs);  // Restore
void unlock();
Times leave_and_return(const std::vector<CUcheckpointGpuPair> &pairs = {});

std::vector<CUuuid> visible_devices();
std::string text_of(const CUuuid &uuid);

// The questions. Each ends with a line that says the answer.
void ask_about_maps(const std::string &question);
void ask_about_process(const std::string &question);
bool ask_about_objects(const std::string &question);  // false: no question of these
void ask_about_opencl(const char *driver);            // a library
void ask_about_calls_away();
void call_all_away(size_t first);

}  // namespace probe
