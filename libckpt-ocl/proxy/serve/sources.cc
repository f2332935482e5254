// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/proxy/serve/sources.h"

#include "common/base/log.h"
#include "libckpt-ocl/proxy/serve/header_folder.h"
#include "libckpt-ocl/proxy/serve/objects.h"

namespace ckpt::ocl {
namespace {

// Intermediate programs, which are released at the end.
struct Parts {
  std::vector<cl_program> all;
  ~Parts() {
    for (cl_program p : all) release_handle(Kind::Program, p);
  }
  cl_program add(cl_program p) {
    all.push_back(p);
    return p;
  }
};

std::optional<HeaderFolder> folder_of(const Headers &files) {
  if (files.empty()) return {};
  Result<HeaderFolder> folder = HeaderFolder::create(files);
  if (folder) return std::move(*folder);
  log::error(folder.error());
  return {};
}

cl_program compile_unit(cl_context context, const std::vector<cl_device_id> &devices,
                        const Container::Unit &unit, Parts &parts, cl_int &status) {
  std::optional<HeaderFolder> files = folder_of(unit.files);
  std::optional<HeaderFolder::Entered> entered;
  if (files) entered.emplace(*files);
  std::string source = files ? files->moved(unit.source) : unit.source;
  cl_program p = parts.add(from_source(context, source, status));
  std::vector<cl_program> headers;
  std::vector<const char *> names;
  for (const Container::Unit::Header &h : unit.headers) {
    headers.push_back(parts.add(from_source(context, h.source, status)));
    names.push_back(h.name.c_str());
  }
  if (status != CL_SUCCESS) return p;
  std::string options = files ? files->moved_options(unit.options) : unit.options;
  options += " -cl-kernel-arg-info";
  status = ::clCompileProgram(p, static_cast<cl_uint>(devices.size()), devices.data(),
                              options.c_str(), static_cast<cl_uint>(headers.size()),
                              headers.empty() ? nullptr : headers.data(),
                              names.empty() ? nullptr : names.data(), nullptr, nullptr);
  return p;
}

}  // namespace

cl_program from_source(cl_context context, const std::string &source, cl_int &status) {
  const char *text = source.data();
  size_t length = source.size();
  return ::clCreateProgramWithSource(context, 1, &text, &length, &status);
}

cl_program built_from_source(cl_context context, const std::vector<cl_device_id> &devices,
                             const std::string &source, const std::string &options,
                             const Headers &files, cl_int &status) {
  std::optional<HeaderFolder> folder = folder_of(files);
  std::optional<HeaderFolder::Entered> entered;
  if (folder) entered.emplace(*folder);
  cl_program p = from_source(context, folder ? folder->moved(source) : source, status);
  if (!p) return p;
  std::string moved = folder ? folder->moved_options(options) : options;
  status = ::clBuildProgram(p, static_cast<cl_uint>(devices.size()), devices.data(), moved.c_str(),
                            nullptr, nullptr);
  return p;
}

cl_program from_native(cl_context context, const std::vector<cl_device_id> &devices,
                       const std::vector<Bytes> &binaries, cl_int &status) {
  std::vector<size_t> lengths;
  std::vector<const unsigned char *> places;
  for (const Bytes &b : binaries) {
    lengths.push_back(b.size());
    places.push_back(reinterpret_cast<const unsigned char *>(b.data()));
  }
  return ::clCreateProgramWithBinary(context, static_cast<cl_uint>(devices.size()), devices.data(),
                                     lengths.data(), places.data(), nullptr, &status);
}

cl_program from_units(cl_context context, const std::vector<cl_device_id> &devices,
                      const std::vector<Container::Unit> &units, const std::string &options,
                      cl_int &status, std::string *log) {
  Parts parts;
  std::vector<cl_program> compiled;
  status = CL_SUCCESS;
  for (const Container::Unit &u : units) {
    compiled.push_back(compile_unit(context, devices, u, parts, status));
    if (status == CL_SUCCESS) continue;
    if (log) *log += build_log(compiled.back(), devices.front());
    return nullptr;
  }
  return ::clLinkProgram(context, static_cast<cl_uint>(devices.size()), devices.data(),
                         options.c_str(), static_cast<cl_uint>(compiled.size()), compiled.data(),
                         nullptr, nullptr, &status);
}

std::string build_log(cl_program program, cl_device_id device) {
  constexpr size_t kMaxBytes = 600;
  size_t size = 0;
  if (!program || ::clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, nullptr,
                                          &size) != CL_SUCCESS)
    return "no build log";
  std::string log(size, '\0');
  ::clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, size, log.data(), nullptr);
  log.resize(std::min({log.find('\0'), log.size(), kMaxBytes}));
  return log;
}

cl_int native_binaries(cl_program program, std::vector<cl_device_id> &devices,
                       std::vector<Bytes> &binaries) {
  cl_uint n = 0;
  cl_int r = ::clGetProgramInfo(program, CL_PROGRAM_NUM_DEVICES, sizeof n, &n, nullptr);
  if (r != CL_SUCCESS) return r;
  devices.resize(n);
  binaries.resize(n);
  std::vector<size_t> sizes(n);
  ::clGetProgramInfo(program, CL_PROGRAM_DEVICES, n * sizeof(cl_device_id), devices.data(),
                     nullptr);
  r = ::clGetProgramInfo(program, CL_PROGRAM_BINARY_SIZES, n * sizeof(size_t), sizes.data(),
                         nullptr);
  if (r != CL_SUCCESS) return r;
  std::vector<std::byte *> places;
  for (cl_uint i = 0; i < n; i++) {
    binaries[i].resize(sizes[i]);
    places.push_back(sizes[i] ? binaries[i].data() : nullptr);
  }
  return ::clGetProgramInfo(program, CL_PROGRAM_BINARIES, n * sizeof(void *), places.data(),
                            nullptr);
}

}  // namespace ckpt::ocl
