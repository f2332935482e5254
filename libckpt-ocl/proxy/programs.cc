// SPDX-License-Identifier: Apache-2.0
#include "common/log.h"
#include "libckpt-ocl/container.h"
#include "libckpt-ocl/proxy/server.h"

namespace ckpt::ocl {
namespace {

struct DeviceBinary {
  cl_device_id device = nullptr;
  Container container;
};

// Driver and device as libckpt-ocl's containers name them (client/program.cc).
std::string identity(cl_device_id d) {
  cl_platform_id p = nullptr;
  ::clGetDeviceInfo(d, CL_DEVICE_PLATFORM, sizeof p, &p, nullptr);
  return fmt::format("{}\n{}\n{}", platform_text(p, CL_PLATFORM_NAME),
                     device_text(d, CL_DEVICE_NAME), device_text(d, CL_DRIVER_VERSION));
}

bool native_fits(const DeviceBinary &b) {
  return !b.container.native.empty() &&
         (b.container.device.empty() || b.container.device == identity(b.device));
}

cl_program from_native(cl_context context, const std::vector<DeviceBinary> &list, cl_int &status) {
  std::vector<cl_device_id> devices;
  std::vector<size_t> lengths;
  std::vector<const unsigned char *> binaries;
  for (const DeviceBinary &b : list) {
    devices.push_back(b.device);
    lengths.push_back(b.container.native.size());
    binaries.push_back(reinterpret_cast<const unsigned char *>(b.container.native.data()));
  }
  return ::clCreateProgramWithBinary(context, static_cast<cl_uint>(devices.size()), devices.data(),
                                     lengths.data(), binaries.data(), nullptr, &status);
}

cl_program from_source(cl_context context, const std::string &source, cl_int &status) {
  const char *text = source.data();
  size_t length = source.size();
  return ::clCreateProgramWithSource(context, 1, &text, &length, &status);
}

// A program from containers: the native binaries where every device still has the driver they are
// for, else the source. The application builds it next either way, and our side of that call brings
// the options.
cl_program from_containers(cl_context context, std::vector<DeviceBinary> &list, cl_int &status) {
  bool all_fit = std::all_of(list.begin(), list.end(), native_fits);
  if (all_fit) {
    cl_program p = from_native(context, list, status);
    if (p && status == CL_SUCCESS) return p;
  }
  if (list.front().container.source.empty()) {
    status = CL_INVALID_BINARY;
    return nullptr;
  }
  return from_source(context, list.front().container.source, status);
}

}  // namespace

void program_source(Server &s, const CommandHeader &h, Reader r) {
  auto context = s.objects.get<cl_context>(Kind::Context, r.get<u64>());
  std::string source(r.str());
  if (!context || !r.ok()) return s.reply(h, CL_INVALID_CONTEXT);
  cl_int status = CL_SUCCESS;
  cl_program p = from_source(context, source, status);
  if (status == CL_SUCCESS) s.objects.put(Kind::Program, h.made, p);
  s.reply(h, status);
}

void program_binary(Server &s, const CommandHeader &h, Reader r) {
  auto context = s.objects.get<cl_context>(Kind::Context, r.get<u64>());
  u32 n = r.get<u32>();
  std::vector<DeviceBinary> list;
  for (u32 i = 0; i < n && r.ok(); i++) {
    DeviceBinary &b = list.emplace_back();
    b.device = s.objects.get<cl_device_id>(Kind::Device, r.get<u64>());
    ByteView bytes = r.blob();
    if (auto ours = Container::unpack(bytes))
      b.container = std::move(*ours);
    else
      b.container.native.assign(bytes.begin(), bytes.end());
    if (!b.device) return s.reply(h, CL_INVALID_DEVICE);
  }
  if (!context || !r.ok() || list.empty()) return s.reply(h, CL_INVALID_VALUE);
  cl_int status = CL_SUCCESS;
  cl_program p = from_containers(context, list, status);
  if (status == CL_SUCCESS)
    s.objects.put(Kind::Program, h.made, p);
  else
    release_handle(Kind::Program, p);
  s.reply(h, status);
}

namespace {

// The driver's binary for one device of the program; empty if there is none.
cl_int native_binary(cl_program p, cl_device_id d, Bytes &value) {
  cl_uint n = 0;
  if (cl_int r = ::clGetProgramInfo(p, CL_PROGRAM_NUM_DEVICES, sizeof n, &n, nullptr);
      r != CL_SUCCESS)
    return r;
  std::vector<cl_device_id> devices(n);
  std::vector<size_t> sizes(n);
  ::clGetProgramInfo(p, CL_PROGRAM_DEVICES, n * sizeof(cl_device_id), devices.data(), nullptr);
  if (cl_int r =
          ::clGetProgramInfo(p, CL_PROGRAM_BINARY_SIZES, n * sizeof(size_t), sizes.data(), nullptr);
      r != CL_SUCCESS)
    return r;
  std::vector<Bytes> all(n);
  std::vector<std::byte *> places(n);
  for (cl_uint i = 0; i < n; i++) {
    all[i].resize(sizes[i]);
    places[i] = sizes[i] ? all[i].data() : nullptr;
  }
  cl_int r = ::clGetProgramInfo(p, CL_PROGRAM_BINARIES, n * sizeof(void *), places.data(), nullptr);
  for (cl_uint i = 0; i < n; i++)
    if (devices[i] == d) value = std::move(all[i]);
  return r;
}

}  // namespace

cl_int program_info(Server &s, u64 program, u64 device, u32 param, Bytes &value) {
  auto p = s.objects.get<cl_program>(Kind::Program, program);
  auto d = s.objects.get<cl_device_id>(Kind::Device, device);
  if (!p) return CL_INVALID_PROGRAM;
  if (param == CL_PROGRAM_BINARIES) return native_binary(p, d, value);
  auto ask = [&](size_t n, void *v, size_t *size) {
    return d ? ::clGetProgramBuildInfo(p, d, param, n, v, size)
             : ::clGetProgramInfo(p, param, n, v, size);
  };
  size_t size = 0;
  if (cl_int r = ask(0, nullptr, &size); r != CL_SUCCESS) return r;
  value.resize(size);
  return size == 0 ? CL_SUCCESS : ask(size, value.data(), nullptr);
}

}  // namespace ckpt::ocl
