// SPDX-License-Identifier: Apache-2.0
//
// What the calls of shared virtual memory answer, also to wrong arguments.
//
//   ocl-svm_calls            what the specification says, as far as ckpt and drivers agree on it
//   ocl-svm_calls absent     where there is no shared virtual memory
#define CL_TARGET_OPENCL_VERSION 300
#include <algorithm>

#include "cl_test.h"

static const char *const kSource =
    "__kernel void add(__global uint *d, uint v) { d[get_global_id(0)] += v; }"
    "__kernel void address(__global ulong *d) { d[0] = (ulong)d; }";

static cl_device_svm_capabilities capabilities(const Cl &cl) {
  cl_device_svm_capabilities c = 0;
  CL(clGetDeviceInfo(cl.device, CL_DEVICE_SVM_CAPABILITIES, sizeof c, &c, nullptr));
  return c;
}

static int calls() {
  Cl cl;
  EXPECT(capabilities(cl) & CL_DEVICE_SVM_COARSE_GRAIN_BUFFER);
  EXPECT(!(capabilities(cl) & CL_DEVICE_SVM_FINE_GRAIN_SYSTEM));
  cl_program p = cl.build(kSource);
  cl_kernel add = cl.kernel(p, "add"), address = cl.kernel(p, "address");
  EXPECT(!clSVMAlloc(nullptr, CL_MEM_READ_WRITE, 64, 0));
  EXPECT(!clSVMAlloc(cl.context, CL_MEM_READ_WRITE, 0, 0));
  EXPECT(!clSVMAlloc(cl.context, CL_MEM_READ_WRITE, ~size_t{0} / 2, 0));
  EXPECT(!clSVMAlloc(cl.context, CL_MEM_READ_WRITE, 64, 3));
  EXPECT(!clSVMAlloc(cl.context, CL_MEM_READ_ONLY | CL_MEM_WRITE_ONLY, 64, 0));
  EXPECT(!clSVMAlloc(cl.context, CL_MEM_SVM_ATOMICS, 64, 0));
  clSVMFree(cl.context, nullptr);
  void *aligned = clSVMAlloc(cl.context, CL_MEM_READ_WRITE, 10, 4096);
  EXPECT(aligned != nullptr && reinterpret_cast<size_t>(aligned) % 4096 == 0);
  clSVMFree(cl.context, aligned);
  auto *m = static_cast<cl_ulong *>(clSVMAlloc(cl.context, CL_MEM_READ_WRITE, 4096, 0));
  EXPECT(m != nullptr && reinterpret_cast<size_t>(m) % 128 == 0);

  // A kernel sees the program's address, also one in the middle.
  size_t one = 1;
  cl_ulong seen = 0;
  for (cl_ulong *at : {m, m + 17}) {
    CL(clSetKernelArgSVMPointer(address, 0, at));
    CL(clEnqueueNDRangeKernel(cl.queue, address, 1, nullptr, &one, nullptr, 0, nullptr, nullptr));
    CL(clEnqueueSVMMemcpy(cl.queue, CL_TRUE, &seen, at, sizeof seen, 0, nullptr, nullptr));
    EXPECT(seen == reinterpret_cast<size_t>(at));
  }
  EXPECT(clSetKernelArgSVMPointer(add, 7, m) == CL_INVALID_ARG_INDEX);
  EXPECT(clSetKernelArgSVMPointer(add, 1, m) == CL_INVALID_ARG_VALUE);
  EXPECT(clSetKernelArgSVMPointer(add, 0, &seen) == CL_INVALID_ARG_VALUE);
  CL(clSetKernelArgSVMPointer(add, 0, nullptr));

  void *list[] = {m, &seen};
  CL(clSetKernelExecInfo(add, CL_KERNEL_EXEC_INFO_SVM_PTRS, sizeof list[0], list));
  EXPECT(clSetKernelExecInfo(add, CL_KERNEL_EXEC_INFO_SVM_PTRS, sizeof list, list) ==
         CL_INVALID_VALUE);
  EXPECT(clSetKernelExecInfo(add, CL_KERNEL_EXEC_INFO_SVM_PTRS, 3, list) == CL_INVALID_VALUE);
  EXPECT(clSetKernelExecInfo(add, 0x1234, sizeof list[0], list) == CL_INVALID_VALUE);
  cl_bool yes = CL_TRUE, no = CL_FALSE;
  EXPECT(clSetKernelExecInfo(add, CL_KERNEL_EXEC_INFO_SVM_FINE_GRAIN_SYSTEM, sizeof yes, &yes) ==
         CL_INVALID_OPERATION);
  CL(clSetKernelExecInfo(add, CL_KERNEL_EXEC_INFO_SVM_FINE_GRAIN_SYSTEM, sizeof no, &no));

  EXPECT(clEnqueueSVMMap(cl.queue, CL_TRUE, CL_MAP_READ, m, 0, 0, nullptr, nullptr) ==
         CL_INVALID_VALUE);
  EXPECT(clEnqueueSVMMap(cl.queue, CL_TRUE, CL_MAP_READ, &seen, 8, 0, nullptr, nullptr) ==
         CL_INVALID_VALUE);
  EXPECT(clEnqueueSVMMap(cl.queue, CL_TRUE, CL_MAP_READ | CL_MAP_WRITE_INVALIDATE_REGION, m, 8, 0,
                         nullptr, nullptr) == CL_INVALID_VALUE);
  EXPECT(clEnqueueSVMMap(nullptr, CL_TRUE, CL_MAP_READ, m, 8, 0, nullptr, nullptr) ==
         CL_INVALID_COMMAND_QUEUE);
  cl_uint pattern = 5;
  EXPECT(clEnqueueSVMMemFill(cl.queue, reinterpret_cast<char *>(m) + 2, &pattern, 4, 8, 0, nullptr,
                             nullptr) == CL_INVALID_VALUE);
  EXPECT(clEnqueueSVMMemFill(cl.queue, m, &pattern, 4, 7, 0, nullptr, nullptr) == CL_INVALID_VALUE);
  EXPECT(clEnqueueSVMMemFill(cl.queue, m, &pattern, 3, 9, 0, nullptr, nullptr) == CL_INVALID_VALUE);
  EXPECT(clEnqueueSVMMemcpy(cl.queue, CL_TRUE, m, m + 1, 64, 0, nullptr, nullptr) ==
         CL_MEM_COPY_OVERLAP);
  EXPECT(clEnqueueSVMMemcpy(cl.queue, CL_TRUE, nullptr, m, 64, 0, nullptr, nullptr) ==
         CL_INVALID_VALUE);
  EXPECT(clEnqueueSVMFree(cl.queue, 1, nullptr, nullptr, nullptr, 0, nullptr, nullptr) ==
         CL_INVALID_VALUE);

  // The types of the commands' events.
  cl_event e[4];
  void *freed = m;
  const void *moved = m;
  CL(clEnqueueSVMMap(cl.queue, CL_FALSE, CL_MAP_READ, m, 8, 0, nullptr, &e[0]));
  CL(clEnqueueSVMUnmap(cl.queue, m, 0, nullptr, &e[1]));
  CL(clEnqueueSVMMigrateMem(cl.queue, 1, &moved, nullptr, 0, 0, nullptr, &e[2]));
  CL(clEnqueueSVMFree(cl.queue, 1, &freed, nullptr, nullptr, 0, nullptr, &e[3]));
  cl_command_type types[] = {CL_COMMAND_SVM_MAP, CL_COMMAND_SVM_UNMAP, CL_COMMAND_SVM_MIGRATE_MEM,
                             CL_COMMAND_SVM_FREE};
  for (int i = 0; i < 4; i++) {
    cl_command_type type = 0;
    CL(clGetEventInfo(e[i], CL_EVENT_COMMAND_TYPE, sizeof type, &type, nullptr));
    EXPECT(type == types[i]);
    CL(clReleaseEvent(e[i]));
  }
  CL(clFinish(cl.queue));

  // Many small allocations, and large ones.
  std::vector<void *> many;
  for (int i = 0; i < 20000; i++) many.push_back(clSVMAlloc(cl.context, CL_MEM_READ_WRITE, 40, 8));
  for (int i = 0; i < 8; i++)
    many.push_back(clSVMAlloc(cl.context, CL_MEM_READ_WRITE, 20u << 20, 4096));
  EXPECT(std::count(many.begin(), many.end(), nullptr) == 0);
  for (void *at : many) std::memset(at, 1, 40);
  for (void *at : many) clSVMFree(cl.context, at);
  return finish();
}

static int absent() {
  Cl cl;
  EXPECT(capabilities(cl) == 0);
  cl_kernel add = cl.kernel(cl.build(kSource), "add");
  std::vector<int> own(16);
  void *at = own.data();
  EXPECT(clSVMAlloc(cl.context, CL_MEM_READ_WRITE, 64, 0) == nullptr);
  EXPECT(clSetKernelArgSVMPointer(add, 0, at) == CL_INVALID_OPERATION);
  EXPECT(clSetKernelExecInfo(add, CL_KERNEL_EXEC_INFO_SVM_PTRS, sizeof at, &at) ==
         CL_INVALID_OPERATION);
  EXPECT(clEnqueueSVMMap(cl.queue, CL_TRUE, CL_MAP_READ, at, 8, 0, nullptr, nullptr) ==
         CL_INVALID_OPERATION);
  EXPECT(clEnqueueSVMUnmap(cl.queue, at, 0, nullptr, nullptr) == CL_INVALID_OPERATION);
  EXPECT(clEnqueueSVMMemcpy(cl.queue, CL_TRUE, at, &own[8], 8, 0, nullptr, nullptr) ==
         CL_INVALID_OPERATION);
  return finish();
}

int main(int argc, char **argv) {
  return argc > 1 && std::string(argv[1]) == "absent" ? absent() : calls();
}
