// SPDX-License-Identifier: Apache-2.0
#include "common/base/log.h"
#include "libckpt-ocl/container.h"
#include "libckpt-ocl/proxy/serve/server.h"
#include "libckpt-ocl/proxy/serve/sources.h"

namespace ckpt::ocl {
namespace {

struct DeviceBinary {
  cl_device_id device = nullptr;
  Container container;
};

// Driver and device as containers name them (identity() in client/entry/program_info.cc).
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

// A program from a source, the next build of which finds these files.
cl_program with_files(Server &s, cl_context context, const std::string &source,
                      const Headers &files, cl_int &status) {
  if (files.empty()) return from_source(context, source, status);
  Result<HeaderFolder> folder = HeaderFolder::create(files);
  if (!folder) {
    log::error(folder.error());
    status = CL_OUT_OF_HOST_MEMORY;
    return nullptr;
  }
  cl_program p = from_source(context, folder->moved(source), status);
  if (p) s.header_folders.emplace(p, std::move(*folder));
  return p;
}

// A program from containers: from the native binaries if every device still has their driver, else
// from their sources. The application builds the program next in either case; the client then adds
// the options.
cl_program from_containers(Server &s, cl_context context, std::vector<DeviceBinary> &list,
                           cl_int &status) {
  std::vector<cl_device_id> devices;
  std::vector<Bytes> natives;
  for (const DeviceBinary &b : list) {
    devices.push_back(b.device);
    natives.push_back(b.container.native);
  }
  if (std::all_of(list.begin(), list.end(), native_fits)) {
    cl_program p = from_native(context, devices, natives, status);
    if (p && status == CL_SUCCESS) return p;
  }
  const Container &c = list.front().container;
  if (!c.source.empty()) return with_files(s, context, c.source, c.files, status);
  status = CL_INVALID_BINARY;
  if (c.units.empty()) return nullptr;
  // Links the inputs again and loads the result as a binary, because the application holds a
  // program from a binary.
  cl_program linked = from_units(context, devices, c.units, c.options, status);
  if (status == CL_SUCCESS) status = native_binaries(linked, devices, natives);
  cl_program p = status == CL_SUCCESS ? from_native(context, devices, natives, status) : nullptr;
  release_handle(Kind::Program, linked);
  return p;
}

std::string source_of(cl_program program) {
  size_t size = 0;
  ::clGetProgramInfo(program, CL_PROGRAM_SOURCE, 0, nullptr, &size);
  std::string source(size, '\0');
  ::clGetProgramInfo(program, CL_PROGRAM_SOURCE, size, source.data(), nullptr);
  if (size > 0) source.pop_back();  // the final NUL
  return source;
}

std::vector<cl_device_id> read_devices(Server &s, Reader &r) {
  std::vector<cl_device_id> out;
  u32 n = r.get<u32>();
  for (u32 i = 0; i < n && r.ok(); i++)
    if (auto d = s.objects.get<cl_device_id>(Kind::Device, r.get<u64>()))
      if (std::find(out.begin(), out.end(), d) == out.end()) out.push_back(d);
  return out;
}

}  // namespace

cl_int Server::with_headers(cl_program program, const std::string &options,
                            const std::function<cl_int(const char *options)> &build) {
  auto found = header_folders.find(program);
  if (found == header_folders.end()) return build(options.c_str());
  HeaderFolder folder = std::move(found->second);
  header_folders.erase(found);
  HeaderFolder::Entered entered(folder);
  return build(folder.moved_options(options).c_str());
}

// The program is replaced, because its source may name files by absolute paths.
void headers(Server &s, const CommandHeader &h, Reader r) {
  u64 number = r.get<u64>();
  auto program = s.objects.get<cl_program>(Kind::Program, number);
  Headers files = get_headers(r);
  if (!program || !r.ok()) return s.reply(h, CL_INVALID_PROGRAM);
  cl_context context = nullptr;
  ::clGetProgramInfo(program, CL_PROGRAM_CONTEXT, sizeof context, &context, nullptr);
  cl_int status = CL_SUCCESS;
  cl_program p = with_files(s, context, source_of(program), files, status);
  if (status == CL_SUCCESS && p) {
    s.objects.put(Kind::Program, number, p);
    s.header_folders.erase(program);  // before the handle is free for another program
    release_handle(Kind::Program, program);
  }
  s.reply(h, status);
}

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
    // One device may stand for several sub-devices.
    auto same = [&](const DeviceBinary &x) { return x.device == b.device; };
    if (std::count_if(list.begin(), list.end(), same) > 1) list.pop_back();
  }
  if (!context || !r.ok() || list.empty()) return s.reply(h, CL_INVALID_VALUE);
  cl_int status = CL_SUCCESS;
  cl_program p = from_containers(s, context, list, status);
  if (status == CL_SUCCESS)
    s.objects.put(Kind::Program, h.made, p);
  else
    release_handle(Kind::Program, p);
  s.reply(h, status);
}

void compile_program(Server &s, const CommandHeader &h, Reader r) {
  auto program = s.objects.get<cl_program>(Kind::Program, r.get<u64>());
  std::vector<cl_device_id> devices = read_devices(s, r);
  std::string options(r.str());
  u32 n = r.get<u32>();
  std::vector<cl_program> headers;
  std::vector<std::string> names;
  for (u32 i = 0; i < n && r.ok(); i++) {
    headers.push_back(s.objects.get<cl_program>(Kind::Program, r.get<u64>()));
    names.emplace_back(r.str());
    if (!headers.back()) return s.reply(h, CL_INVALID_PROGRAM);
  }
  if (!program || !r.ok()) return s.reply(h, CL_INVALID_PROGRAM);
  std::vector<const char *> c_names;
  for (const std::string &name : names) c_names.push_back(name.c_str());
  s.reply(h, s.with_headers(program, options, [&](const char *moved) {
    return ::clCompileProgram(
        program, static_cast<cl_uint>(devices.size()), devices.empty() ? nullptr : devices.data(),
        moved, static_cast<cl_uint>(headers.size()), headers.empty() ? nullptr : headers.data(),
        c_names.empty() ? nullptr : c_names.data(), nullptr, nullptr);
  }));
}

void link_program(Server &s, const CommandHeader &h, Reader r) {
  auto context = s.objects.get<cl_context>(Kind::Context, r.get<u64>());
  std::vector<cl_device_id> devices = read_devices(s, r);
  std::string options(r.str());
  u32 n = r.get<u32>();
  std::vector<cl_program> inputs;
  for (u32 i = 0; i < n && r.ok(); i++) {
    inputs.push_back(s.objects.get<cl_program>(Kind::Program, r.get<u64>()));
    if (!inputs.back()) return s.reply(h, CL_INVALID_PROGRAM);
  }
  if (!context || !r.ok() || inputs.empty()) return s.reply(h, CL_INVALID_VALUE);
  cl_int status = CL_SUCCESS;
  cl_program p = ::clLinkProgram(context, static_cast<cl_uint>(devices.size()),
                                 devices.empty() ? nullptr : devices.data(), options.c_str(), n,
                                 inputs.data(), nullptr, nullptr, &status);
  if (status == CL_SUCCESS && p)
    s.objects.put(Kind::Program, h.made, p);
  else
    release_handle(Kind::Program, p);
  s.reply(h, status);
}

namespace {

// The driver's binary for one device of the program; empty if it has none.
cl_int native_binary(cl_program p, cl_device_id d, Bytes &value) {
  std::vector<cl_device_id> devices;
  std::vector<Bytes> all;
  cl_int r = native_binaries(p, devices, all);
  for (size_t i = 0; i < devices.size() && r == CL_SUCCESS; i++)
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
