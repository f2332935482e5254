// SPDX-License-Identifier: Apache-2.0
//
// The additions of OpenCL 3.0: queries, cloned kernels, objects with properties, context callbacks.
// A program that has seen its device as a 3.0 device must find all of them on every other device,
// also on a 1.2 device. `kept` also checks what only ckpt-run guarantees.
#define CL_TARGET_OPENCL_VERSION 300
#include "cl_test.h"

#include <CL/cl_ext.h>

static const char *kSource =
    "__kernel void add(__global int *data, int by) { data[get_global_id(0)] += by; }";

struct Question {
  cl_device_info param;
  size_t bytes;  // of the answer; 0: any size
};

static const Question kQuestions[] = {
    {CL_DEVICE_NUMERIC_VERSION, sizeof(cl_version)},
    {CL_DEVICE_EXTENSIONS_WITH_VERSION, 0},
    {CL_DEVICE_ILS_WITH_VERSION, 0},
    {CL_DEVICE_BUILT_IN_KERNELS_WITH_VERSION, 0},
    {CL_DEVICE_OPENCL_C_ALL_VERSIONS, 0},
    {CL_DEVICE_OPENCL_C_FEATURES, 0},
    {CL_DEVICE_IL_VERSION, 0},
    {CL_DEVICE_LATEST_CONFORMANCE_VERSION_PASSED, 0},
    {CL_DEVICE_ATOMIC_MEMORY_CAPABILITIES, 8},
    {CL_DEVICE_ATOMIC_FENCE_CAPABILITIES, 8},
    {CL_DEVICE_SVM_CAPABILITIES, 8},
    {CL_DEVICE_DEVICE_ENQUEUE_CAPABILITIES, 0},  // PoCL 3.1 answers with four bytes
    {CL_DEVICE_QUEUE_ON_DEVICE_PROPERTIES, 8},
    {CL_DEVICE_MAX_ON_DEVICE_QUEUES, 4},
    {CL_DEVICE_PIPE_SUPPORT, 4},
    {CL_DEVICE_MAX_PIPE_ARGS, 4},
    {CL_DEVICE_MAX_GLOBAL_VARIABLE_SIZE, 8},
    {CL_DEVICE_MAX_READ_WRITE_IMAGE_ARGS, 4},
    {CL_DEVICE_MAX_NUM_SUB_GROUPS, 4},
    {CL_DEVICE_SUB_GROUP_INDEPENDENT_FORWARD_PROGRESS, 4},
    {CL_DEVICE_NON_UNIFORM_WORK_GROUP_SUPPORT, 4},
    {CL_DEVICE_WORK_GROUP_COLLECTIVE_FUNCTIONS_SUPPORT, 4},
    {CL_DEVICE_GENERIC_ADDRESS_SPACE_SUPPORT, 4},
    {CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, 8},
};

template <class T>
static T device_info(const Cl &cl, cl_device_info param) {
  T v{};
  CL(clGetDeviceInfo(cl.device, param, sizeof v, &v, nullptr));
  return v;
}

static std::vector<cl_name_version> versions(const Cl &cl, cl_device_info param) {
  size_t size = 0;
  CL(clGetDeviceInfo(cl.device, param, 0, nullptr, &size));
  EXPECT(size % sizeof(cl_name_version) == 0);
  std::vector<cl_name_version> v(size / sizeof(cl_name_version));
  if (size > 0) CL(clGetDeviceInfo(cl.device, param, size, v.data(), nullptr));
  return v;
}

static std::string text(const Cl &cl, cl_device_info param) {
  char v[4096] = "";
  CL(clGetDeviceInfo(cl.device, param, sizeof v, v, nullptr));
  return v;
}

static void questions(const Cl &cl, bool kept) {
  for (const Question &q : kQuestions) {
    size_t size = 0;
    cl_int r = clGetDeviceInfo(cl.device, q.param, 0, nullptr, &size);
    if (r != CL_SUCCESS || (q.bytes && size != q.bytes))
      std::printf("question %x: %d, %zu bytes\n", q.param, r, size);
    EXPECT(r == CL_SUCCESS && (q.bytes == 0 || size == q.bytes));
  }
  EXPECT(device_info<cl_version>(cl, CL_DEVICE_NUMERIC_VERSION) == CL_MAKE_VERSION(3, 0, 0));
  EXPECT(text(cl, CL_DEVICE_VERSION).rfind("OpenCL 3.0 ", 0) == 0);
  EXPECT(!versions(cl, CL_DEVICE_OPENCL_C_ALL_VERSIONS).empty());
  cl_device_atomic_capabilities relaxed =
      CL_DEVICE_ATOMIC_ORDER_RELAXED | CL_DEVICE_ATOMIC_SCOPE_WORK_GROUP;
  auto memory =
      device_info<cl_device_atomic_capabilities>(cl, CL_DEVICE_ATOMIC_MEMORY_CAPABILITIES);
  EXPECT((memory & relaxed) == relaxed);
  if (!kept) return;
  // Features that are not preserved are absent, and both lists name the same extensions.
  // Features that are not preserved are absent, and both lists name the same extensions.
  EXPECT(device_info<cl_bool>(cl, CL_DEVICE_PIPE_SUPPORT) == CL_FALSE);
  EXPECT(device_info<size_t>(cl, CL_DEVICE_MAX_GLOBAL_VARIABLE_SIZE) == 0);
  EXPECT((memory & CL_DEVICE_ATOMIC_SCOPE_ALL_DEVICES) == 0);
  EXPECT(versions(cl, CL_DEVICE_BUILT_IN_KERNELS_WITH_VERSION).empty());
  std::string extensions = " " + text(cl, CL_DEVICE_EXTENSIONS) + " ";
  for (const cl_name_version &v : versions(cl, CL_DEVICE_EXTENSIONS_WITH_VERSION))
    EXPECT(extensions.find(" " + std::string(v.name) + " ") != std::string::npos);
  EXPECT(extensions.find("cl_khr_spir") == std::string::npos);
  for (const cl_name_version &v : versions(cl, CL_DEVICE_OPENCL_C_FEATURES))
    EXPECT(std::string(v.name) != "__opencl_c_program_scope_global_variables");
}

static int g_order = 0, g_first = 0, g_second = 0;
static void CL_CALLBACK first_gone(cl_context, void *) { g_first = ++g_order; }
static void CL_CALLBACK second_gone(cl_context, void *) { g_second = ++g_order; }

int main(int argc, char **argv) {
  bool kept = argc > 1 && std::string(argv[1]) == "kept";
  Cl cl;
  cl_int status;
  questions(cl, kept);
  cl_version platform = 0;
  CL(clGetPlatformInfo(cl.platform, CL_PLATFORM_NUMERIC_VERSION, sizeof platform, &platform,
                       nullptr));
  EXPECT(platform == CL_MAKE_VERSION(3, 0, 0));
  cl_ulong resolution = 1, host = 0, device = 0;
  CL(clGetPlatformInfo(cl.platform, CL_PLATFORM_HOST_TIMER_RESOLUTION, sizeof resolution,
                       &resolution, nullptr));
  // A driver may have timers; under ckpt-run there are none.
  cl_int timers = resolution > 0 && !kept ? CL_SUCCESS : CL_INVALID_OPERATION;
  EXPECT(resolution == 0 || !kept);
  EXPECT(clGetHostTimer(cl.device, &host) == timers);
  EXPECT(clGetDeviceAndHostTimer(cl.device, &device, &host) == timers);

  // Properties: an empty list is preserved, and differs from no list.
  cl_mem_properties none[] = {0}, unknown[] = {0x1234, 5, 0};
  cl_mem data =
      clCreateBufferWithProperties(cl.context, none, CL_MEM_READ_WRITE, 256, nullptr, &status);
  CL(status);
  clCreateBufferWithProperties(cl.context, unknown, CL_MEM_READ_WRITE, 256, nullptr, &status);
  EXPECT(status == CL_INVALID_PROPERTY);
  cl_sampler_properties list[] = {CL_SAMPLER_NORMALIZED_COORDS, CL_FALSE,
                                  CL_SAMPLER_ADDRESSING_MODE, CL_ADDRESS_NONE, 0};
  cl_sampler sampler = nullptr;
  if (kept) {  // PoCL 3.1 has no clCreateSamplerWithProperties
    sampler = clCreateSamplerWithProperties(cl.context, list, &status);
    CL(status);
    list[2] = CL_SAMPLER_NORMALIZED_COORDS;
    clCreateSamplerWithProperties(cl.context, list, &status);
    EXPECT(status == CL_INVALID_VALUE);
    list[2] = CL_SAMPLER_ADDRESSING_MODE;
    cl_queue_properties size[] = {CL_QUEUE_PRIORITY_KHR, CL_QUEUE_PRIORITY_HIGH_KHR, 0};
    clCreateCommandQueueWithProperties(cl.context, cl.device, size, &status);
    EXPECT(status == CL_INVALID_QUEUE_PROPERTIES);
  }

  // A clone starts with the arguments of the original, and then has its own.
  cl_kernel add = cl.kernel(cl.build(kSource), "add");
  std::vector<int> zeros(64, 0);
  CL(clEnqueueWriteBuffer(cl.queue, data, CL_TRUE, 0, 256, zeros.data(), 0, nullptr, nullptr));
  int ten = 10, three = 3;
  cl_kernel clone = nullptr;
  if (kept) {  // PoCL 3.1 has no clCloneKernel either
    CL(clSetKernelArg(add, 0, sizeof data, &data));
    CL(clSetKernelArg(add, 1, sizeof ten, &ten));
    clone = clCloneKernel(add, &status);
    CL(status);
    CL(clSetKernelArg(add, 1, sizeof three, &three));
    EXPECT(clCloneKernel(nullptr, &status) == nullptr && status == CL_INVALID_KERNEL);
  }
  cl_context other = clCreateContext(nullptr, 1, &cl.device, nullptr, nullptr, &status);
  CL(status);
  CL(clSetContextDestructorCallback(other, first_gone, nullptr));
  CL(clSetContextDestructorCallback(other, second_gone, nullptr));
  EXPECT(clSetContextDestructorCallback(other, nullptr, nullptr) == CL_INVALID_VALUE);
  cl_mem inside = clCreateBuffer(other, CL_MEM_READ_WRITE, 16, nullptr, &status);
  CL(clReleaseContext(other));
  EXPECT(g_order == 0);  // its buffer keeps it alive

  pause_here();

  questions(cl, kept);
  CL(clReleaseMemObject(inside));
  EXPECT(g_second == 1 && g_first == 2);
  cl_mem_properties back[4] = {9};
  size_t size = 99;
  CL(clGetMemObjectInfo(data, CL_MEM_PROPERTIES, sizeof back, back, &size));
  EXPECT(size == sizeof(cl_mem_properties) && back[0] == 0);
  cl_mem plain = cl.buffer(16);
  CL(clGetMemObjectInfo(plain, CL_MEM_PROPERTIES, sizeof back, back, &size));
  EXPECT(size == 0);
  if (!kept) return finish();
  cl_sampler_properties given[8] = {};
  CL(clGetSamplerInfo(sampler, CL_SAMPLER_PROPERTIES, sizeof given, given, &size));
  EXPECT(size == sizeof list && std::memcmp(given, list, sizeof list) == 0);
  size_t global = 64;
  CL(clEnqueueNDRangeKernel(cl.queue, clone, 1, nullptr, &global, nullptr, 0, nullptr, nullptr));
  EXPECT(cl.read_ints(data, 64)[63] == 10);
  CL(clEnqueueNDRangeKernel(cl.queue, add, 1, nullptr, &global, nullptr, 0, nullptr, nullptr));
  EXPECT(cl.read_ints(data, 64)[63] == 13);
  CL(clReleaseKernel(add));
  cl_kernel third = clCloneKernel(clone, &status);
  CL(status);
  CL(clEnqueueNDRangeKernel(cl.queue, third, 1, nullptr, &global, nullptr, 0, nullptr, nullptr));
  EXPECT(cl.read_ints(data, 64)[0] == 23);
  return finish();
}
