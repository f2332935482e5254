// SPDX-License-Identifier: Apache-2.0
//
// Sub-devices: created, queried, used and released before READY; used again after it, possibly on a
// device that cannot be divided.
#include "cl_test.h"

static const char *kSource =
    "__kernel void add(__global int *data, int by) { data[get_global_id(0)] += by; }";

static std::vector<cl_device_id> divide(cl_device_id d,
                                        std::vector<cl_device_partition_property> list) {
  cl_uint n = 0;
  CL(clCreateSubDevices(d, list.data(), 0, nullptr, &n));
  std::vector<cl_device_id> parts(n);
  CL(clCreateSubDevices(d, list.data(), n, parts.data(), nullptr));
  return parts;
}

static cl_uint references(cl_device_id d) {
  cl_uint n = 0;
  CL(clGetDeviceInfo(d, CL_DEVICE_REFERENCE_COUNT, sizeof n, &n, nullptr));
  return n;
}

static void facts(const Cl &cl, const std::vector<cl_device_id> &parts) {
  for (cl_device_id d : parts) {
    cl_device_id parent = nullptr;
    cl_device_partition_property type[4] = {};
    cl_platform_id platform = nullptr;
    char name[256] = "";
    CL(clGetDeviceInfo(d, CL_DEVICE_PARENT_DEVICE, sizeof parent, &parent, nullptr));
    CL(clGetDeviceInfo(d, CL_DEVICE_PLATFORM, sizeof platform, &platform, nullptr));
    CL(clGetDeviceInfo(d, CL_DEVICE_PARTITION_TYPE, sizeof type, type, nullptr));
    CL(clGetDeviceInfo(d, CL_DEVICE_NAME, sizeof name, name, nullptr));
    EXPECT(parent == cl.device && platform == cl.platform && name[0]);
    EXPECT(type[0] == CL_DEVICE_PARTITION_EQUALLY && type[1] == 1 && type[2] == 0);
  }
}

static cl_event filled(cl_command_queue q, cl_mem m, const cl_event *behind) {
  int value = 1;
  cl_event e;
  CL(clEnqueueFillBuffer(q, m, &value, sizeof value, 0, 256, behind != nullptr, behind, &e));
  return e;
}

static cl_ulong stamp(cl_event e, cl_profiling_info which) {
  cl_ulong t = 0;
  CL(clWaitForEvents(1, &e));
  CL(clGetEventProfilingInfo(e, which, sizeof t, &t, nullptr));
  return t;
}

// Parts of one device have one clock. So that theirs would differ after a restore, the last queue
// is used later than the first one before it.
static void use_last_queue_later(const std::vector<cl_command_queue> &queues, cl_mem m) {
  stamp(filled(queues.front(), m, nullptr), CL_PROFILING_COMMAND_END);
  ::usleep(300'000);
  stamp(filled(queues.back(), m, nullptr), CL_PROFILING_COMMAND_END);
}

static void one_clock(const std::vector<cl_command_queue> &queues, cl_mem m) {
  cl_event first = filled(queues.back(), m, nullptr);
  CL(clFlush(queues.back()));
  cl_event second = filled(queues.front(), m, &first);
  EXPECT(stamp(second, CL_PROFILING_COMMAND_START) >= stamp(first, CL_PROFILING_COMMAND_END));
}

static void errors(const Cl &cl) {
  cl_device_partition_property many[] = {CL_DEVICE_PARTITION_EQUALLY, 100'000, 0},
                               unknown[] = {0x4321, 1, 0},
                               one[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
  cl_device_id d;
  cl_uint n = 0;
  CL(clCreateSubDevices(cl.device, one, 0, nullptr, &n));
  std::printf("errors: %d %d\n", clCreateSubDevices(cl.device, many, 1, &d, nullptr) < 0,
              clCreateSubDevices(cl.device, unknown, 1, &d, nullptr));
  if (n > 1) EXPECT(clCreateSubDevices(cl.device, one, 1, &d, nullptr) == CL_INVALID_VALUE);
  EXPECT(clRetainDevice(cl.device) == CL_SUCCESS && clReleaseDevice(cl.device) == CL_SUCCESS);
}

int main() {
  Cl cl;
  cl_int status;
  cl_device_partition_property kinds[8] = {};
  CL(clGetDeviceInfo(cl.device, CL_DEVICE_PARTITION_PROPERTIES, sizeof kinds, kinds, nullptr));
  if (kinds[0] == 0) {
    cl_device_partition_property one[] = {CL_DEVICE_PARTITION_EQUALLY, 1, 0};
    cl_uint n = 0;
    EXPECT(clCreateSubDevices(cl.device, one, 0, nullptr, &n) == CL_INVALID_VALUE);
    std::printf("no partitions here\n");
    return finish();
  }
  errors(cl);
  std::vector<cl_device_id> parts = divide(cl.device, {CL_DEVICE_PARTITION_EQUALLY, 1, 0});
  std::vector<cl_device_id> counted = divide(cl.device, {CL_DEVICE_PARTITION_BY_COUNTS, 1, 0, 0});
  EXPECT(counted.size() == 1);
  facts(cl, parts);
  CL(clRetainDevice(parts[0]));
  EXPECT(references(parts[0]) == 2 && references(cl.device) == 1);
  CL(clReleaseDevice(parts[0]));

  // All parts and the whole in one context; a queue and a program for each.
  std::vector<cl_device_id> all = parts;
  all.push_back(cl.device);
  cl_context context =
      clCreateContext(nullptr, (cl_uint)all.size(), all.data(), nullptr, nullptr, &status);
  CL(status);
  cl_program program = clCreateProgramWithSource(context, 1, &kSource, nullptr, &status);
  CL(status);
  CL(clBuildProgram(program, (cl_uint)all.size(), all.data(), "", nullptr, nullptr));
  cl_mem data = clCreateBuffer(context, CL_MEM_READ_WRITE, 256, nullptr, &status);
  CL(status);
  std::vector<cl_command_queue> queues;
  for (cl_device_id d : all) {
    queues.push_back(clCreateCommandQueue(context, d, CL_QUEUE_PROFILING_ENABLE, &status));
    CL(status);
  }
  int zero = 0, by = 5;
  CL(clEnqueueFillBuffer(queues[0], data, &zero, 4, 0, 256, 0, nullptr, nullptr));
  CL(clFinish(queues[0]));
  cl_kernel add = clCreateKernel(program, "add", &status);
  CL(status);
  CL(clSetKernelArg(add, 0, sizeof data, &data));
  CL(clSetKernelArg(add, 1, sizeof by, &by));
  // The context keeps `parts` alive; nothing keeps `counted`.
  for (cl_device_id d : parts) CL(clReleaseDevice(d));
  CL(clReleaseDevice(counted[0]));

  cl_mem filling = clCreateBuffer(context, CL_MEM_READ_WRITE, 256, nullptr, &status);
  CL(status);
  use_last_queue_later(queues, filling);

  pause_here();

  one_clock(queues, filling);
  size_t global = 64;
  for (cl_command_queue q : queues) {
    CL(clEnqueueNDRangeKernel(q, add, 1, nullptr, &global, nullptr, 0, nullptr, nullptr));
    CL(clFinish(q));
  }
  std::vector<int> v(64);
  CL(clEnqueueReadBuffer(queues[0], data, CL_TRUE, 0, 256, v.data(), 0, nullptr, nullptr));
  EXPECT(v[0] == 5 * (int)all.size() && v[63] == v[0]);
  facts(cl, parts);
  cl_device_id of_queue = nullptr;
  CL(clGetCommandQueueInfo(queues[0], CL_QUEUE_DEVICE, sizeof of_queue, &of_queue, nullptr));
  EXPECT(of_queue == parts[0]);
  cl_program again = clCreateProgramWithSource(context, 1, &kSource, nullptr, &status);
  CL(status);
  CL(clBuildProgram(again, (cl_uint)all.size(), all.data(), "", nullptr, nullptr));
  return finish();
}
