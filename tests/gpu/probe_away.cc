// SPDX-License-Identifier: Apache-2.0
//
// What calls do while the driver is checkpointed: each entry of the driver, then functions of the
// runtime and of cuBLAS where they are installed, from a second thread. Each is called twice: with
// zeros for arguments, and with pointers to memory of zeros. A call that crashes ends its process,
// and another one goes on behind it.
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <thread>

#include "probe.h"

namespace probe {
namespace {

constexpr const char *kEntries[] = {
#define CU_ENTRY(name, version, symbol, per_thread) #symbol,
#include "cuda/entries.api"
#undef CU_ENTRY
};

// Those that reach the driver also by its private tables (cuGetExportTable).
constexpr const char *kOfRuntime[] = {
    "cudaDeviceGetAttribute",
    "cudaDeviceSynchronize",
    "cudaDriverGetVersion",
    "cudaEventCreate",
    "cudaEventQuery",
    "cudaFree",
    "cudaFuncGetAttributes",
    "cudaGetDevice",
    "cudaGetDeviceCount",
    "cudaGetLastError",
    "cudaGetDeviceProperties",
    "cudaHostAlloc",
    "cudaMalloc",
    "cudaMallocAsync",
    "cudaMemGetInfo",
    "cudaMemcpy",
    "cudaMemset",
    "cudaPointerGetAttributes",
    "cudaRuntimeGetVersion",
    "cudaSetDevice",
    "cudaStreamCreate",
    "cudaStreamQuery",
    "cudaStreamSynchronize",
    "cudaGraphCreate",
};
constexpr const char *kOfCublas[] = {"cublasCreate_v2", "cublasGetVersion_v2"};

constexpr auto kLimit = std::chrono::milliseconds(300);  // a call that takes longer blocks
constexpr int kMostCrashes = 20;

struct Function {
  std::string name;
  void *address;
};

void append(std::vector<Function> &all, void *library, const char *const *names, size_t n) {
  for (size_t i = 0; library != nullptr && i < n; i++)
    if (void *f = dlsym(library, names[i])) all.push_back({names[i], f});
}

// The calls that the probe itself needs in this state are left out.
std::vector<Function> functions() {
  std::vector<Function> all;
  append(all, library(), kEntries, std::size(kEntries));
  std::erase_if(all, [](const Function &f) { return f.name.starts_with("cuCheckpoint"); });
  void *runtime = dlopen("libcudart.so.13", RTLD_NOW);
  if (runtime == nullptr) runtime = dlopen("libcudart.so.12", RTLD_NOW);
  append(all, runtime, kOfRuntime, std::size(kOfRuntime));
  void *cublas = dlopen("libcublas.so.13", RTLD_NOW);
  if (cublas == nullptr) cublas = dlopen("libcublas.so.12", RTLD_NOW);
  append(all, cublas, kOfCublas, std::size(kOfCublas));
  return all;
}

struct Call {
  void *address;
  void *arguments[8];
  std::atomic<bool> done{false};
  int result = 0;
};

// A function ignores arguments that it does not have (System V ABI for x86-64).
void *make(void *p) {
  std::unique_ptr<std::shared_ptr<Call>> owner(static_cast<std::shared_ptr<Call> *>(p));
  Call &c = **owner;
  using Any = int (*)(void *, void *, void *, void *, void *, void *, void *, void *);
  auto a = c.arguments;
  c.result = reinterpret_cast<Any>(c.address)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]);
  c.done = true;
  return nullptr;
}

std::string result_of(const Function &f, bool pointers) {
  auto call = std::make_shared<Call>();
  call->address = f.address;
  for (void *&argument : call->arguments)
    argument = pointers ? std::calloc(1, 1 << 16) : nullptr;  // never freed: the call may not end
  pthread_t thread;
  if (pthread_create(&thread, nullptr, make, new std::shared_ptr<Call>(call)) != 0) return "none";
  pthread_detach(thread);
  for (auto end = std::chrono::steady_clock::now() + kLimit; !call->done;) {
    if (std::chrono::steady_clock::now() >= end) return "blocks";
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
  return call->result == 0 ? "success" : std::to_string(call->result);
}

}  // namespace

// In a process of its own: "place name result result" for each function from `first` on. The line
// is begun before the call.
void call_all_away(size_t first) {
  std::vector<Function> all = functions();
  Mapped m{reserve(kBytes)};
  map(m);
  fill(m.at, 0x5eed);
  leave();
  for (size_t i = first; i < all.size(); i++) {
    std::printf("%zu %s ", i, all[i].name.c_str());
    std::fflush(stdout);
    std::string zeros = result_of(all[i], false);
    std::printf("%s ", zeros.c_str());
    std::fflush(stdout);
    std::printf("%s\n", zeros == "blocks" ? "blocks" : result_of(all[i], true).c_str());
  }
  check(restore({}), "cuCheckpointProcessRestore");
  unlock();
  std::fflush(stdout);
  _exit(0);  // threads may be inside the driver
}

namespace {

struct Report {
  size_t last = 0;
  bool any = false;
  std::map<std::string, std::vector<std::string>> by_result;
  void add(const std::string &line) {
    char name[128] = {}, zeros[32] = {}, pointers[32] = {};
    int n = std::sscanf(line.c_str(), "%zu %127s %31s %31s", &last, name, zeros, pointers);
    if (n < 2) return;
    any = true;
    std::string text = n < 3 ? "crashes" : std::string(zeros) + (n < 4 ? " / crashes" : "");
    if (n == 4 && std::strcmp(zeros, pointers) != 0) text += std::string(" / ") + pointers;
    by_result[text].push_back(name);
  }
};

bool run_from(const std::string &self, size_t first, Report &report) {
  FILE *out = popen(("exec '" + self + "' away-from " + std::to_string(first)).c_str(), "r");
  if (out == nullptr) fail("cannot start a process");
  report.any = false;
  char line[512];
  while (std::fgets(line, sizeof line, out) != nullptr) report.add(line);
  return pclose(out) == 0;
}

}  // namespace

void ask_about_calls_away() {
  char self[4096] = {};
  if (readlink("/proc/self/exe", self, sizeof self - 1) < 0) fail("cannot find this program");
  Report report;
  int crashes = 0;
  for (size_t first = 0; !run_from(self, first, report); first = report.last + 1)
    if (!report.any || ++crashes > kMostCrashes) fail("the process ends before the first call");
  size_t sum = 0;
  for (auto &[result, names] : report.by_result) {
    std::printf("%s:", result.c_str());
    for (const std::string &name : names) std::printf(" %s", name.c_str());
    std::puts("");
    sum += names.size();
  }
  std::string text;
  for (auto &[result, names] : report.by_result)
    text += (text.empty() ? "" : ", ") + std::to_string(names.size()) + " " + result;
  std::printf("%zu functions, with zeros / with pointers: %s\n", sum, text.c_str());
}

}  // namespace probe
