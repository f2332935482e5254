// SPDX-License-Identifier: Apache-2.0
//
// Options and logs of the driver's compiler and linker, as programs that generate PTX use them.
// With a number as its argument it makes as many steps, and waits before each until the file
// "steps" allows it: a linked variable is counted up.
#include <cstring>
#include <fstream>
#include <string>
#include <thread>

#include "driver_check.h"

static const char kCounter[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .global .u32 counter = 40;\n"
    ".visible .entry count(.param .u64 p) {\n.reg .b32 %r;\n.reg .b64 %d;\n"
    "ld.global.u32 %r, [counter];\nadd.u32 %r, %r, 1;\nst.global.u32 [counter], %r;\n"
    "ld.param.u64 %d, [p];\nst.global.u32 [%d], %r;\nret;\n}\n";
static const char kWrong[] =
    ".version 7.0\n.target sm_75\n.address_size 64\n"
    ".visible .entry wrong( {\nret;\n";

// The logs and the time that a program asks for, each filled with what must be overwritten.
struct Logs {
  char info[512], error[512];
  CUjit_option options[6] = {CU_JIT_INFO_LOG_BUFFER,  CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
                             CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
                             CU_JIT_WALL_TIME,        CU_JIT_MAX_REGISTERS};
  void *values[6];

  explicit Logs(size_t registers) {
    std::memset(info, 'x', sizeof info);
    std::memset(error, 'x', sizeof error);
    void *all[] = {info,
                   reinterpret_cast<void *>(sizeof info),
                   error,
                   reinterpret_cast<void *>(sizeof error),
                   reinterpret_cast<void *>(~size_t{0}),
                   reinterpret_cast<void *>(registers)};
    std::memcpy(values, all, sizeof all);
  }
  // A limit of 0 is left out.
  unsigned n() const { return values[5] ? 6 : 5; }

  void check(bool wrong) const {
    float milliseconds;
    std::memcpy(&milliseconds, &values[4], sizeof milliseconds);
    CHECK(milliseconds >= 0 && milliseconds < 60000);
    CHECK(std::memchr(info, 0, sizeof info) && std::memchr(error, 0, sizeof error));
    CHECK((std::strlen(error) > 0) == wrong);
    CHECK(reinterpret_cast<size_t>(values[1]) < sizeof info);
    CHECK(reinterpret_cast<size_t>(values[3]) == std::strlen(error));
  }
};

static unsigned counted(CUmodule module) {
  CUfunction f;
  CUdeviceptr p;
  unsigned value = 0;
  OK(cuModuleGetFunction(&f, module, "count"));
  OK(cuMemAlloc(&p, 4));
  void *args[] = {&p};
  OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, args, nullptr));
  OK(cuMemcpyDtoH(&value, p, 4));
  OK(cuMemFree(p));
  return value;
}

static void check_compiler() {
  CUmodule module;
  Logs good(32), wrong(0);
  OK(cuModuleLoadDataEx(&module, kCounter, good.n(), good.options, good.values));
  good.check(false);
  CHECK(counted(module) == 41 && counted(module) == 42);
  OK(cuModuleUnload(module));
  CHECK(cuModuleLoadDataEx(&module, kWrong, wrong.n(), wrong.options, wrong.values) ==
        CUDA_ERROR_INVALID_PTX);
  wrong.check(true);
}

// A driver may find what is wrong when the input is added, or when the link is completed.
static void check_wrong_input() {
  CUlinkState state;
  Logs logs(0);
  void *image;
  OK(cuLinkCreate(logs.n(), logs.options, logs.values, &state));
  CUresult e = cuLinkAddData(state, CU_JIT_INPUT_PTX, const_cast<char *>(kWrong), sizeof kWrong,
                             "wrong", 0, nullptr, nullptr);
  if (e == CUDA_SUCCESS) e = cuLinkComplete(state, &image, nullptr);
  CHECK(e == CUDA_ERROR_INVALID_PTX);
  logs.check(true);
  OK(cuLinkDestroy(state));
  CHECK(cuLinkDestroy(state) == CUDA_ERROR_INVALID_HANDLE);
}

// From a file, as numba adds it.
static CUmodule linked(size_t registers) {
  CUlinkState state;
  CUmodule module;
  Logs logs(registers);
  void *image;
  size_t bytes;
  std::ofstream("counter.ptx") << kCounter;
  OK(cuLinkCreate(logs.n(), logs.options, logs.values, &state));
  CHECK(cuLinkAddFile(state, CU_JIT_INPUT_PTX, "missing.ptx", 0, nullptr, nullptr) ==
        CUDA_ERROR_FILE_NOT_FOUND);
  OK(cuLinkAddFile(state, CU_JIT_INPUT_PTX, "counter.ptx", 0, nullptr, nullptr));
  OK(cuLinkComplete(state, &image, &bytes));
  logs.check(false);
  OK(cuModuleLoadData(&module, image));
  OK(cuLinkDestroy(state));
  return module;
}

static int allowed() {
  std::ifstream in("steps");
  int n = 1 << 30;
  in >> n;
  return n;
}

static void make_steps(CUmodule module, int n) {
  for (int i = 1; i <= n; i++) {
    while (allowed() < i) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    CHECK(counted(module) == 40u + static_cast<unsigned>(i));
    std::printf("step %d\n", i);
    std::fflush(stdout);
  }
}

int main(int argc, char **argv) {
  CUcontext c;
  OK(cuInit(0));
  OK(cuCtxCreate(&c, nullptr, 0, 0));
  if (argc > 1) {
    make_steps(linked(argc > 2 ? 32 : 0), std::atoi(argv[1]));
  } else {
    check_compiler();
    check_wrong_input();
    for (size_t registers : {0, 32}) {
      CUmodule module = linked(registers);
      CHECK(counted(module) == 41 && counted(module) == 42);
    }
  }
  OK(cuCtxDestroy(c));
  std::puts("PASSED");
}
