// SPDX-License-Identifier: Apache-2.0
//
// Linked images that outlive the linker, the primary context's handle, and devices by their place
// on the bus. An argument leaves out NVML, which a node without a GPU does not have.
#include <dlfcn.h>

#include <cstring>
#include <string>
#include <vector>

#include "../../../softcuda/nvml/nvml_abi.h"
#include "driver_check.h"

static const char kHead[] = ".version 7.0\n.target sm_75\n.address_size 64\n";
static const char kCaller[] =
    ".extern .func (.param .b32 r) value();\n"
    ".visible .entry store(.param .u64 p) {\n.reg .b32 %r;\n.reg .b64 %d;\n"
    "{\n.param .b32 r;\ncall (r), value, ();\nld.param.b32 %r, [r];\n}\n"
    "ld.param.u64 %d, [p];\nst.global.u32 [%d], %r;\nret;\n}\n";
static const char kCallee[] =
    ".visible .func (.param .b32 r) value() {\n.reg .b32 %r;\nmov.u32 %r, 77;\n"
    "st.param.b32 [r], %r;\nret;\n}\n";

static void add(CUlinkState state, const char *text) {
  std::string ptx = std::string(kHead) + text;
  OK(cuLinkAddData(state, CU_JIT_INPUT_PTX, ptx.data(), ptx.size() + 1, "input", 0, nullptr,
                   nullptr));
}

// The driver owns the image only until cuLinkDestroy, so a program copies it.
static std::vector<char> linked() {
  CUlinkState state;
  void *image;
  size_t bytes;
  OK(cuLinkCreate(0, nullptr, nullptr, &state));
  add(state, kCaller);
  add(state, kCallee);
  OK(cuLinkComplete(state, &image, &bytes));
  std::vector<char> copy(static_cast<char *>(image), static_cast<char *>(image) + bytes);
  OK(cuLinkDestroy(state));
  return copy;
}

static void run(const void *image) {
  CUmodule module;
  CUfunction f;
  CUdeviceptr p;
  unsigned value = 0;
  OK(cuModuleLoadData(&module, image));
  OK(cuModuleGetFunction(&f, module, "store"));
  OK(cuMemAlloc(&p, 4));
  void *args[] = {&p};
  OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, nullptr, args, nullptr));
  OK(cuMemcpyDtoH(&value, p, 4));
  CHECK(value == 77);
  OK(cuMemFree(p));
  OK(cuModuleUnload(module));
}

static void check_linked_images() {
  std::vector<char> image = linked();
  run(image.data());
  // It is also an input like any other.
  CUlinkState state;
  void *again;
  OK(cuLinkCreate(0, nullptr, nullptr, &state));
  OK(cuLinkAddData(state, CU_JIT_INPUT_CUBIN, image.data(), image.size(), "image", 0, nullptr,
                   nullptr));
  OK(cuLinkComplete(state, &again, nullptr));
  run(again);
  OK(cuLinkDestroy(state));
}

// A reset does not release the context.
static void check_primary_context() {
  CUcontext c, same;
  CUdeviceptr p;
  unsigned flags;
  int active;
  OK(cuCtxSetCurrent(nullptr));
  OK(cuDevicePrimaryCtxRetain(&c, 0));
  OK(cuCtxPushCurrent(c));
  OK(cuMemAlloc(&p, 4));
  OK(cuDevicePrimaryCtxReset(0));
  OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
  CHECK(active == 0);
  CHECK(cuMemFree(p) == CUDA_ERROR_INVALID_VALUE);
  OK(cuCtxPopCurrent(&same));
  CHECK(same == c);
  OK(cuCtxPushCurrent(c));
  OK(cuMemAlloc(&p, 4));
  OK(cuMemsetD32(p, 1, 1));
  OK(cuCtxSynchronize());
  OK(cuDevicePrimaryCtxRelease(0));
  CHECK(cuMemAlloc(&p, 4) == CUDA_ERROR_CONTEXT_IS_DESTROYED);
  CHECK(cuDevicePrimaryCtxRelease(0) == CUDA_ERROR_INVALID_CONTEXT);
  OK(cuDevicePrimaryCtxRetain(&same, 0));
  CHECK(same == c);
  OK(cuMemAlloc(&p, 4));
  OK(cuMemFree(p));
}

// NVML finds the device that the driver names by its bus.
static void check_bus() {
  void *library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  CHECK(library != nullptr);
  using Find = nvmlReturn_t(const char *, nvmlDevice_t *);
  using Text = nvmlReturn_t(nvmlDevice_t, char *, unsigned);
  auto init = reinterpret_cast<nvmlReturn_t (*)()>(dlsym(library, "nvmlInit_v2"));
  auto find = reinterpret_cast<Find *>(dlsym(library, "nvmlDeviceGetHandleByPciBusId_v2"));
  auto uuid = reinterpret_cast<Text *>(dlsym(library, "nvmlDeviceGetUUID"));
  CHECK(init != nullptr && find != nullptr && uuid != nullptr && init() == NVML_SUCCESS);
  char bus[32], text[96], wanted[8];
  CUuuid id;
  nvmlDevice_t device;
  OK(cuDeviceGetPCIBusId(bus, sizeof bus, 0));
  OK(cuDeviceGetUuid(&id, 0));
  CHECK(find(bus, &device) == NVML_SUCCESS && uuid(device, text, sizeof text) == NVML_SUCCESS);
  std::snprintf(wanted, sizeof wanted, "GPU-%02x", static_cast<unsigned char>(id.bytes[0]));
  CHECK(std::strncmp(text, wanted, 6) == 0);
  CHECK(find("0000:7f:00.0", &device) == NVML_ERROR_NOT_FOUND);
}

int main(int argc, char **) {
  CUcontext c;
  OK(cuInit(0));
  OK(cuCtxCreate(&c, nullptr, 0, 0));
  check_linked_images();
  if (argc == 1) check_bus();
  OK(cuCtxDestroy(c));
  check_primary_context();
  std::puts("PASSED");
}
