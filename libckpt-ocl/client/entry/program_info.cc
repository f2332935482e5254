// SPDX-License-Identifier: Apache-2.0
//
// Queries about programs. CL_PROGRAM_BINARIES answers with a container (container.h), so that a
// program which caches its binaries can be built on another device.
#include "libckpt-ocl/client/entry/program.h"

#include <algorithm>

#include "libckpt-ocl/client/entry/api_call.h"
#include "libckpt-ocl/client/entry/icd.h"
#include "libckpt-ocl/client/object/info.h"
#include "libckpt-ocl/container.h"

namespace ckpt::ocl {
namespace {

std::string identity(const Device &d) {
  Bytes version;
  remote_info(InfoOf::Device, d, 0, CL_DRIVER_VERSION, version);
  std::string_view v = text(version);
  return fmt::format("{}\n{}\n{}", d.real.platform, d.real.name, v.substr(0, v.find('\0')));
}

// The container for one device; empty if the program was not built for it.
Bytes pack_container(Program &p, Device &d) {
  Container c;
  if (remote_info(InfoOf::Program, p, d.number, CL_PROGRAM_BINARIES, c.native) != CL_SUCCESS ||
      c.native.empty())
    return {};
  c.device = identity(d);
  c.options = p.options;
  c.source = p.source;
  c.units = link_units_of(p);
  if (p.files) c.files = *p.files;
  return c.pack();
}

const Bytes &container(Program &p, Device &d) {
  auto it = p.containers.find(d.number);
  if (it == p.containers.end()) it = p.containers.emplace(d.number, pack_container(p, d)).first;
  return it->second;
}

cl_int answer_binaries(Program &p, const Answer &out) {
  size_t size = p.devices.size() * sizeof(unsigned char *);
  if (out.needed) *out.needed = size;
  if (!out.value) return CL_SUCCESS;
  if (out.room < size) return CL_INVALID_VALUE;
  auto **places = static_cast<unsigned char **>(out.value);
  for (size_t i = 0; i < p.devices.size(); i++) {
    const Bytes &b = container(p, *p.devices[i]);
    if (places[i] && !b.empty()) std::memcpy(places[i], b.data(), b.size());
  }
  return CL_SUCCESS;
}

cl_int answer_build_info(Program &p, const Device &d, cl_program_build_info param,
                         const Answer &out) {
  {
    std::lock_guard lock(p.mutex);
    auto kept = p.build_info.find({d.number, param});
    if (kept != p.build_info.end()) return out.bytes(kept->second);
  }
  return remote_info(InfoOf::ProgramBuild, p, d.number, param, out);
}

// Drivers before OpenCL 2.0 have no such variables. Oclgrind (21.10, OpenCL 1.2) counts the formats
// of printf as such.
bool may_have_program_scope(u64 device) {
  Bytes version;
  return remote_info(InfoOf::Device, device, 0, CL_DEVICE_VERSION, version) == CL_SUCCESS &&
         !text(version).starts_with("OpenCL 1.");
}

}  // namespace

void keep_build_info(Program &p) {
  decltype(p.build_info) kept;
  for (Device *d : p.devices)
    for (cl_program_build_info param :
         {CL_PROGRAM_BUILD_STATUS, CL_PROGRAM_BUILD_LOG, CL_PROGRAM_BINARY_TYPE})
      if (Bytes value;
          remote_info(InfoOf::ProgramBuild, p.number, d->number, param, value) == CL_SUCCESS)
        kept[{d->number, param}] = std::move(value);
  std::lock_guard lock(p.mutex);
  p.build_info = std::move(kept);
}

bool asks_for_argument_info(const std::string &options) {
  return options.find(kArgumentInfo) != std::string::npos;
}

std::vector<Container::Unit> link_units_of(const Program &p) {
  if (!p.units.empty()) return p.units;
  std::vector<Container::Unit> units;
  for (const Ref<Program> &in : p.inputs) {
    if (in->source.empty()) {
      std::vector<Container::Unit> of_library = link_units_of(*in);
      if (of_library.empty()) return {};
      std::ranges::move(of_library, std::back_inserter(units));
      continue;
    }
    Container::Unit &u = units.emplace_back();
    u.source = in->source;
    u.options = in->options;
    if (in->files) u.files = *in->files;
    for (const Program::Header &h : in->headers) u.headers.push_back({h.name, h.program->source});
  }
  return units;
}

bool shows_argument_info(const Program &p) {
  auto asked = [](const auto &part) { return asks_for_argument_info(part.options); };
  return asked(p) || std::ranges::any_of(p.units, asked) ||
         std::ranges::any_of(p.inputs,
                             [](const Ref<Program> &in) { return shows_argument_info(*in); });
}

size_t program_scope_bytes(u64 program, u64 device) {
  Bytes value;
  size_t bytes = 0;
  if (!may_have_program_scope(device)) return 0;
  remote_info(InfoOf::ProgramBuild, program, device, CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE,
              value);
  std::memcpy(&bytes, value.data(), std::min(value.size(), sizeof bytes));
  return bytes;
}

std::vector<std::string> kernel_names(Program &p) {
  Bytes value;
  std::vector<std::string> names;
  if (remote_info(InfoOf::Program, p, 0, CL_PROGRAM_KERNEL_NAMES, value) != CL_SUCCESS)
    return names;
  std::string_view all = text(value);
  all = all.substr(0, all.find('\0'));
  while (!all.empty()) {
    size_t end = std::min(all.find(';'), all.size());
    if (end > 0) names.emplace_back(all.substr(0, end));
    all.remove_prefix(std::min(end + 1, all.size()));
  }
  return names;
}

}  // namespace ckpt::ocl

namespace ckpt::ocl::entry {

cl_int clGetProgramInfo(cl_program program, cl_program_info param, size_t room, void *value,
                        size_t *needed) {
  ApiCall call;
  Answer out{room, value, needed};
  auto *p = object<Program>(program);
  if (!p) return CL_INVALID_PROGRAM;
  std::lock_guard lock(p->mutex);
  std::vector<cl_device_id> devices;
  for (Device *d : p->devices) devices.push_back(handle<cl_device_id>(d));
  switch (param) {
    case CL_PROGRAM_REFERENCE_COUNT: return out.scalar(cl_uint{p->app_count.load()});
    case CL_PROGRAM_CONTEXT: return out.scalar(handle<cl_context>(p->context.get()));
    case CL_PROGRAM_NUM_DEVICES: return out.scalar(static_cast<cl_uint>(devices.size()));
    case CL_PROGRAM_DEVICES: return out.list(devices);
    case CL_PROGRAM_SOURCE: return out.text(p->from_binary ? "" : p->source);
    case CL_PROGRAM_BINARY_SIZES: {
      std::vector<size_t> sizes;
      for (Device *d : p->devices) sizes.push_back(container(*p, *d).size());
      return out.list(sizes);
    }
    case CL_PROGRAM_BINARIES: return answer_binaries(*p, out);
    case CL_PROGRAM_IL: return out.bytes(p->il);
    case CL_PROGRAM_SCOPE_GLOBAL_CTORS_PRESENT:
    case CL_PROGRAM_SCOPE_GLOBAL_DTORS_PRESENT: return out.scalar(cl_bool{CL_FALSE});
    case CL_PROGRAM_NUM_KERNELS:
    case CL_PROGRAM_KERNEL_NAMES: return remote_info(InfoOf::Program, *p, 0, param, out);
    default: return CL_INVALID_VALUE;
  }
}

cl_int clGetProgramBuildInfo(cl_program program, cl_device_id device, cl_program_build_info param,
                             size_t room, void *value, size_t *needed) {
  ApiCall call;
  Answer out{room, value, needed};
  auto *p = object<Program>(program);
  auto *d = object<Device>(device);
  if (!p) return CL_INVALID_PROGRAM;
  if (!d || !p->built_for(d)) return CL_INVALID_DEVICE;
  switch (param) {
    case CL_PROGRAM_BUILD_OPTIONS: {
      std::lock_guard lock(p->mutex);
      return out.text(p->options);
    }
    case CL_PROGRAM_BUILD_STATUS:
    case CL_PROGRAM_BUILD_LOG:
    case CL_PROGRAM_BINARY_TYPE:
    case CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE: return answer_build_info(*p, *d, param, out);
    default: return CL_INVALID_VALUE;
  }
}

}  // namespace ckpt::ocl::entry
