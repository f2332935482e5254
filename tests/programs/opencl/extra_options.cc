// SPDX-License-Identifier: Apache-2.0
//
// Features of OpenCL 3.0 that no implementation of the test bed has. Preloaded into the proxy, this
// library simulates them; it changes nothing in other processes, but for sources as SPIR-V.
//
// - SPIR-V: a module is a SPIR-V header followed by OpenCL C. Specialization constant N becomes the
//   macro SPEC_N. A real module is translated to SPIR by CKPT_TEST_LLVM_SPIRV (the path of
//   llvm-spirv), as PoCL does it where it is built with SPIR-V; values of constants are printed.
// - Sources as SPIR-V: with CKPT_TEST_CLANG (the path of clang) the program's sources become
// modules.
//   This alone is simulated in the program, too.
// - Sub-groups: an answer is the sum of the inputs and the last digit of the query.
// - Variables at program scope: a program built with -D VARIABLES has 64 bytes of them.
// - Device UUIDs: CKPT_TEST_UUID in the environment (32 hexadecimal digits) is the UUID of PoCL's
//   device with one thread (cl_khr_device_uuid).
//
// CKPT_TEST_1_2 in the environment has the opposite effect: no driver knows a query of OpenCL 2.x
// or 3.0. (oclgrind 21.10 is a 1.2 driver that answers them.)
// CKPT_TEST_ACCELERATOR: every device has that type, so that it counts as one with memory of its
// own. CKPT_TEST_FAILS=FILE: likewise where the file exists, until the first large write to a
// buffer, which fails and removes the file. CKPT_TEST_NO_COMPILER: every build fails, with a build
// log. CKPT_TEST_REFUSES_FILLS: the device has no memory to fill a buffer.
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <dlfcn.h>
#include <errno.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace {

constexpr char kVersions[] = "SPIR-V_1.0 SPIR-V_1.2";
constexpr size_t kHeaderBytes = 5 * sizeof(cl_uint);

template <class F>
F next(const char *name) {
  return reinterpret_cast<F>(::dlsym(RTLD_NEXT, name));
}

bool in_proxy() { return std::strcmp(program_invocation_short_name, "ckpt-ocl-proxy") == 0; }

bool fails() {
  const char *file = std::getenv("CKPT_TEST_FAILS");
  return in_proxy() && file && ::access(file, F_OK) == 0;
}

cl_int answer(const void *what, size_t bytes, size_t room, void *value, size_t *needed) {
  if (needed) *needed = bytes;
  if (value && room < bytes) return CL_INVALID_VALUE;
  if (value) std::memcpy(value, what, bytes);
  return CL_SUCCESS;
}

// Null: the device keeps its own UUID.
const char *uuid_of(cl_device_id device) {
  const char *uuid = std::getenv("CKPT_TEST_UUID");
  if (!uuid || !in_proxy()) return nullptr;
  std::string all(256, '\0');
  next<decltype(&clGetDeviceInfo)>("clGetDeviceInfo")(device, CL_DEVICE_NAME, all.size(),
                                                      all.data(), nullptr);
  return all.starts_with("basic") || all.starts_with("cpu-minimal") ? uuid : nullptr;
}

cl_int answer_uuid(const char *digits, size_t room, void *value, size_t *needed) {
  cl_uchar bytes[CL_UUID_SIZE_KHR];
  for (size_t i = 0; i < sizeof bytes; i++)
    bytes[i] = static_cast<cl_uchar>(std::stoi(std::string(digits + 2 * i, 2), nullptr, 16));
  return answer(bytes, sizeof bytes, room, value, needed);
}

cl_int answer_extensions(cl_device_id device, size_t room, void *value, size_t *needed) {
  std::string all(16 << 10, '\0');
  cl_int status = next<decltype(&clGetDeviceInfo)>("clGetDeviceInfo")(
      device, CL_DEVICE_EXTENSIONS, all.size(), all.data(), nullptr);
  if (status != CL_SUCCESS) return status;
  all.resize(all.find('\0'));
  all += " cl_khr_device_uuid";
  return answer(all.c_str(), all.size() + 1, room, value, needed);
}

std::map<cl_program, std::map<cl_uint, cl_int>> &constants() {
  static std::map<cl_program, std::map<cl_uint, cl_int>> all;
  return all;
}

// The programs that are in real SPIR-V.
std::set<cl_program> &modules() {
  static std::set<cl_program> all;
  return all;
}

// It begins with OpCapability.
bool is_module(const void *il, size_t length) {
  cl_uint words[6] = {};
  std::memcpy(words, il, std::min(length, sizeof words));
  return words[5] == (2u << 16 | 17);
}

// What the commands make of a file `in` in a file `out`.
std::string translated(const void *what, size_t length, const std::string &commands) {
  char folder[] = "/tmp/ckpt-spirv-XXXXXX";
  if (!::mkdtemp(folder)) return {};
  std::ofstream(std::string(folder) + "/in", std::ios::binary)
      .write(static_cast<const char *>(what), static_cast<std::streamsize>(length));
  bool ran =
      std::system(("unset LD_PRELOAD; cd " + std::string(folder) + " && " + commands).c_str()) == 0;
  std::ifstream made(std::string(folder) + "/out", std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(made), {}};
  std::filesystem::remove_all(folder);
  return ran ? text : std::string();
}

std::string llvm_spirv() {
  const char *path = std::getenv("CKPT_TEST_LLVM_SPIRV");
  return path ? path : "false";
}

std::string module_of(const std::string &source) {
  const char *clang = std::getenv("CKPT_TEST_CLANG");
  if (!clang || in_proxy()) return {};
  return translated(source.data(), source.size(),
                    std::string(clang) +
                        " -w -x cl -cl-std=CL1.2 -target spir64 -O1 -Xclang "
                        "-finclude-default-header -emit-llvm -c in -o bitcode && " +
                        llvm_spirv() + " --spirv-max-version=1.0 -o out bitcode");
}

cl_program program_from_module(cl_context context, const void *il, size_t length, cl_int *errcode) {
  // PoCL does not compile SPIR in which functions that are not inlined ask for their place.
  const char *clang = std::getenv("CKPT_TEST_CLANG");
  std::string spir = translated(
      il, length,
      llvm_spirv() + " -r --spirv-target-env=CL1.2 -o bitcode in && " + (clang ? clang : "false") +
          " -w -x ir -S -emit-llvm -o - bitcode | sed 's/ noinline / /' >text && " +
          (clang ? clang : "false") + " -w -x ir -c -emit-llvm -o out text");
  cl_uint n = 0;
  ::clGetContextInfo(context, CL_CONTEXT_NUM_DEVICES, sizeof n, &n, nullptr);
  std::vector<cl_device_id> devices(n);
  ::clGetContextInfo(context, CL_CONTEXT_DEVICES, n * sizeof devices[0], devices.data(), nullptr);
  std::vector<size_t> sizes(n, spir.size());
  std::vector<const unsigned char *> all(n, reinterpret_cast<const unsigned char *>(spir.data()));
  cl_program made = ::clCreateProgramWithBinary(context, n, devices.data(), sizes.data(),
                                                all.data(), nullptr, errcode);
  if (made) modules().insert(made);
  return made;
}

}  // namespace

// The vendor's header declares these functions with other parameter names.
// NOLINTBEGIN(readability-inconsistent-declaration-parameter-name)
extern "C" {

[[gnu::visibility("default")]] cl_int clGetDeviceInfo(cl_device_id device, cl_device_info param,
                                                      size_t room, void *value, size_t *needed) {
  constexpr cl_uint kSubGroups = 4;
  if (in_proxy() && std::getenv("CKPT_TEST_1_2") && param > CL_DEVICE_PRINTF_BUFFER_SIZE &&
      param < 0x4000)
    return CL_INVALID_VALUE;
  constexpr cl_device_type kAccelerator = CL_DEVICE_TYPE_ACCELERATOR;
  bool own_memory = in_proxy() && (std::getenv("CKPT_TEST_ACCELERATOR") || fails());
  if (own_memory && param == CL_DEVICE_TYPE)
    return answer(&kAccelerator, sizeof kAccelerator, room, value, needed);
  if (const char *uuid = uuid_of(device)) {
    if (param == CL_DEVICE_UUID_KHR) return answer_uuid(uuid, room, value, needed);
    if (param == CL_DEVICE_EXTENSIONS) return answer_extensions(device, room, value, needed);
  }
  if (in_proxy() && param == CL_DEVICE_IL_VERSION)
    return answer(kVersions, sizeof kVersions, room, value, needed);
  if (in_proxy() && param == CL_DEVICE_MAX_NUM_SUB_GROUPS)
    return answer(&kSubGroups, sizeof kSubGroups, room, value, needed);
  return next<decltype(&clGetDeviceInfo)>("clGetDeviceInfo")(device, param, room, value, needed);
}

[[gnu::visibility("default")]] cl_int clGetKernelSubGroupInfo(cl_kernel kernel, cl_device_id device,
                                                              cl_kernel_sub_group_info param,
                                                              size_t input_bytes, const void *input,
                                                              size_t room, void *value,
                                                              size_t *needed) {
  if (!in_proxy())
    return next<decltype(&clGetKernelSubGroupInfo)>("clGetKernelSubGroupInfo")(
        kernel, device, param, input_bytes, input, room, value, needed);
  size_t sum = param & 0xf;
  for (size_t i = 0; i < input_bytes / sizeof(size_t); i++)
    sum += static_cast<const size_t *>(input)[i];
  return answer(&sum, sizeof sum, room, value, needed);
}

[[gnu::visibility("default")]] cl_int clGetProgramBuildInfo(cl_program program, cl_device_id device,
                                                            cl_program_build_info param,
                                                            size_t room, void *value,
                                                            size_t *needed) {
  auto real = next<decltype(&clGetProgramBuildInfo)>("clGetProgramBuildInfo");
  if (!in_proxy() || param != CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE)
    return real(program, device, param, room, value, needed);
  char options[1024] = "";
  real(program, device, CL_PROGRAM_BUILD_OPTIONS, sizeof options, options, nullptr);
  size_t bytes = std::strstr(options, "-D VARIABLES") ? 64 : 0;
  return answer(&bytes, sizeof bytes, room, value, needed);
}

[[gnu::visibility("default")]] cl_program clCreateProgramWithSource(cl_context context, cl_uint n,
                                                                    const char **texts,
                                                                    const size_t *lengths,
                                                                    cl_int *errcode) {
  std::string all;
  for (cl_uint i = 0; i < n; i++)
    all += lengths && lengths[i] ? std::string(texts[i], lengths[i]) : std::string(texts[i]);
  if (std::string module = module_of(all); !module.empty())
    return ::clCreateProgramWithIL(context, module.data(), module.size(), errcode);
  return next<decltype(&clCreateProgramWithSource)>("clCreateProgramWithSource")(context, n, texts,
                                                                                 lengths, errcode);
}

[[gnu::visibility("default")]] cl_program clCreateProgramWithIL(cl_context context, const void *il,
                                                                size_t length, cl_int *errcode) {
  if (!in_proxy())
    return next<decltype(&clCreateProgramWithIL)>("clCreateProgramWithIL")(context, il, length,
                                                                           errcode);
  if (is_module(il, length)) return program_from_module(context, il, length, errcode);
  const char *text = static_cast<const char *>(il) + kHeaderBytes;
  size_t bytes = length - kHeaderBytes;
  return clCreateProgramWithSource(context, 1, &text, &bytes, errcode);
}

[[gnu::visibility("default")]] cl_int clSetProgramSpecializationConstant(cl_program program,
                                                                         cl_uint id, size_t size,
                                                                         const void *value) {
  if (!in_proxy())
    return next<decltype(&clSetProgramSpecializationConstant)>(
        "clSetProgramSpecializationConstant")(program, id, size, value);
  if (size != sizeof(cl_int)) return CL_INVALID_VALUE;
  std::memcpy(&constants()[program][id], value, size);
  return CL_SUCCESS;
}

[[gnu::visibility("default")]] cl_int clBuildProgram(cl_program program, cl_uint n,
                                                     const cl_device_id *devices,
                                                     const char *options,
                                                     void(CL_CALLBACK *notify)(cl_program, void *),
                                                     void *user) {
  auto real = next<decltype(&clBuildProgram)>("clBuildProgram");
  if (!in_proxy()) return real(program, n, devices, options, notify, user);
  if (std::getenv("CKPT_TEST_NO_COMPILER")) options = "-cl-no-such-option";
  std::string all = options ? options : "";
  if (modules().contains(program)) {
    for (auto [id, value] : constants()[program])
      std::fprintf(stderr, "constant %u of a module: %d\n", id, value);
    all += " -x spir -spir-std=1.2";
    return real(program, n, devices, all.c_str(), notify, user);
  }
  for (auto [id, value] : constants()[program])
    all += " -D SPEC_" + std::to_string(id) + "=" + std::to_string(value);
  return real(program, n, devices, all.c_str(), notify, user);
}

[[gnu::visibility("default")]] cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem buffer,
                                                           cl_bool blocking, size_t offset,
                                                           size_t size, const void *data, cl_uint n,
                                                           const cl_event *list, cl_event *event) {
  if (size >= 64 << 10 && fails() && ::unlink(std::getenv("CKPT_TEST_FAILS")) == 0)
    return CL_OUT_OF_RESOURCES;
  auto real = next<decltype(&clEnqueueWriteBuffer)>("clEnqueueWriteBuffer");
  return real(queue, buffer, blocking, offset, size, data, n, list, event);
}

[[gnu::visibility("default")]] cl_int clEnqueueFillBuffer(cl_command_queue queue, cl_mem buffer,
                                                          const void *pattern, size_t pattern_size,
                                                          size_t offset, size_t size, cl_uint n,
                                                          const cl_event *list, cl_event *event) {
  if (in_proxy() && std::getenv("CKPT_TEST_REFUSES_FILLS")) return CL_MEM_OBJECT_ALLOCATION_FAILURE;
  auto real = next<decltype(&clEnqueueFillBuffer)>("clEnqueueFillBuffer");
  return real(queue, buffer, pattern, pattern_size, offset, size, n, list, event);
}
}
// NOLINTEND(readability-inconsistent-declaration-parameter-name)
