// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/entry/program.h"

#include <algorithm>

#include "libckpt-ocl/client/entry/icd.h"
#include "libckpt-ocl/client/object/create.h"
#include "libckpt-ocl/client/object/info.h"
#include "libckpt-ocl/container.h"

namespace ckpt::ocl {
namespace {

cl_int read_sources(cl_uint n, const char **strings, const size_t *lengths, std::string &out) {
  if (n == 0 || !strings) return CL_INVALID_VALUE;
  for (cl_uint i = 0; i < n; i++) {
    if (!strings[i]) return CL_INVALID_VALUE;
    if (lengths && lengths[i])
      out.append(strings[i], lengths[i]);
    else
      out.append(strings[i]);
  }
  return CL_SUCCESS;
}

std::string identity(const Device &d) {
  Bytes version;
  remote_info(InfoOf::Device, d, 0, CL_DRIVER_VERSION, version);
  std::string_view v = text(version);
  return fmt::format("{}\n{}\n{}", d.real.platform, d.real.name, v.substr(0, v.find('\0')));
}

// The container for one device; empty if the program is not built for it.
Bytes pack_container(Program &p, Device &d) {
  Container c;
  if (remote_info(InfoOf::Program, p, d.number, CL_PROGRAM_BINARIES, c.native) != CL_SUCCESS ||
      c.native.empty())
    return {};
  c.device = identity(d);
  c.options = p.options;
  c.source = p.source;
  c.units = link_units_of(p);
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

// Kernel argument information tells handles from numbers (facts/opencl.md, "Kernel argument
// types"); the option for it is ours and never shows in CL_PROGRAM_BUILD_OPTIONS.
constexpr std::string_view kArgumentInfo = "-cl-kernel-arg-info";

bool asks_for_argument_info(const std::string &options) {
  return options.find(kArgumentInfo) != std::string::npos;
}

std::string with_argument_info(const std::string &options) {
  if (asks_for_argument_info(options)) return options;
  return options.empty() ? std::string(kArgumentInfo) : options + " " + std::string(kArgumentInfo);
}

// What clBuildProgram and clCompileProgram check alike.
template <class Notify>
cl_int check_build(const Program &p, cl_uint n, const cl_device_id *devices, Notify notify,
                   const void *user) {
  if ((n == 0) != (devices == nullptr) || (!notify && user)) return CL_INVALID_VALUE;
  for (cl_uint i = 0; i < n; i++)
    if (!p.built_for(object<Device>(devices[i]))) return CL_INVALID_DEVICE;
  return p.kernels.load() > 0 ? CL_INVALID_OPERATION : CL_SUCCESS;
}

// Of a step that gave a specialization constant: {u64 program, u32 id, …}.
u32 constant_id(const LedgerEntry &step) {
  Reader r(step.payload);
  r.get<u64>();
  return r.get<u32>();
}

void put_devices(Writer &w, cl_uint n, const cl_device_id *devices) {
  w.put(u32{n});
  for (cl_uint i = 0; i < n; i++)
    w.put(object<Device>(devices[i]) ? object<Device>(devices[i])->number : 0);
}

// Takes from the program's ledger_entries what the build that comes makes history: builds before
// it, unless a link was made of them, and values of specialization constants that were given anew.
void drop_superseded_entries(Program &p) {
  constexpr u16 kConstant = api::spec<&::clSetProgramSpecializationConstant>.op;
  std::vector<LedgerEntry> kept;
  std::set<u32> seen;
  for (size_t i = p.ledger_entries.size(); i-- > 0;) {
    LedgerEntry &step = p.ledger_entries[i];
    bool constant = step.op == kConstant;
    if (constant && !seen.insert(constant_id(step)).second) continue;
    if (constant || i == 0) kept.push_back(std::move(step));
  }
  std::reverse(kept.begin(), kept.end());
  p.ledger_entries = std::move(kept);
}

// Builds or compiles, and notes how.
cl_int build(Program &p, u16 op, Bytes payload, const std::string &options) {
  cl_int status = link().round_trip(op, p.number, payload);
  forget_info(&p);
  std::lock_guard lock(p.mutex);
  if (!p.from_binary) p.options = options;
  p.containers.clear();
  if (!p.was_linked) drop_superseded_entries(p);
  if (status == CL_SUCCESS) p.record(op, std::move(payload));
  return status;
}

}  // namespace

std::vector<Container::Unit> link_units_of(const Program &p) {
  if (!p.units.empty()) return p.units;
  std::vector<Container::Unit> units;
  for (const Ref<Program> &in : p.inputs) {
    if (in->source.empty()) return {};
    Container::Unit &u = units.emplace_back();
    u.source = in->source;
    u.options = in->options;
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

cl_program clCreateProgramWithSource(cl_context context, cl_uint n, const char **strings,
                                     const size_t *lengths, cl_int *errcode) {
  Entry entry;
  auto *c = object<Context>(context);
  if (!c) return failed<cl_program>(CL_INVALID_CONTEXT, errcode);
  std::string source;
  if (cl_int r = read_sources(n, strings, lengths, source); r != CL_SUCCESS)
    return failed<cl_program>(r, errcode);
  auto *p = new Program;
  p->context = Ref<Context>(c);
  p->devices = c->devices;
  p->source = std::move(source);
  Writer w;
  w.put(c->number).str(p->source);
  return created<cl_program>(p, create(p, static_cast<u16>(Op::ProgramSource), w.take()), errcode);
}

cl_program clCreateProgramWithBinary(cl_context context, cl_uint n, const cl_device_id *devices,
                                     const size_t *lengths, const unsigned char **binaries,
                                     cl_int *binary_status, cl_int *errcode) {
  Entry entry;
  auto *c = object<Context>(context);
  if (!c) return failed<cl_program>(CL_INVALID_CONTEXT, errcode);
  if (n == 0 || !devices || !lengths || !binaries)
    return failed<cl_program>(CL_INVALID_VALUE, errcode);
  auto *p = new Program;
  p->context = Ref<Context>(c);
  p->from_binary = true;
  cl_int bad = CL_SUCCESS;
  Writer w;
  w.put(c->number).put(u32{n});
  for (cl_uint i = 0; i < n; i++) {
    auto *d = object<Device>(devices[i]);
    bool given = lengths[i] > 0 && binaries[i];
    if (binary_status) binary_status[i] = given ? CL_SUCCESS : CL_INVALID_VALUE;
    if (!d || !c->has(d)) bad = CL_INVALID_DEVICE;
    if (!given && bad == CL_SUCCESS) bad = CL_INVALID_VALUE;
    if (bad != CL_SUCCESS) continue;
    ByteView binary = view(binaries[i], lengths[i]);
    if (auto ours = Container::unpack(binary)) {
      p->source = ours->source;
      p->options = ours->options;
      p->units = ours->units;
    }
    p->devices.push_back(d);
    w.put(d->number).blob(binary);
  }
  if (bad == CL_SUCCESS) bad = create(p, static_cast<u16>(Op::ProgramBinary), w.take());
  if (bad == CL_INVALID_BINARY && binary_status) std::fill_n(binary_status, n, CL_INVALID_BINARY);
  return created<cl_program>(p, bad, errcode);
}

cl_int clRetainProgram(cl_program program) { return retain<Program>(program, CL_INVALID_PROGRAM); }

cl_int clReleaseProgram(cl_program program) {
  Entry entry;
  cl_int r = release<Program>(program, CL_INVALID_PROGRAM);
  link().flush_releases();
  return r;
}

cl_int clBuildProgram(cl_program program, cl_uint n, const cl_device_id *devices,
                      const char *options, void(CL_CALLBACK *notify)(cl_program, void *),
                      void *user) {
  Entry entry;
  auto *p = object<Program>(program);
  if (!p) return CL_INVALID_PROGRAM;
  if (cl_int r = check_build(*p, n, devices, notify, user); r != CL_SUCCESS) return r;
  std::string asked = options ? options : "";
  // A binary of ours may be built from its source again: with the options that it was built with.
  bool has_options = p->from_binary && !p->source.empty();
  std::string sent = with_argument_info(has_options ? p->options : asked);
  Bytes payload = encoded<&::clBuildProgram>(program, n, devices, sent.c_str(), nullptr, nullptr);
  cl_int status = build(*p, api::spec<&::clBuildProgram>.op, std::move(payload), asked);
  p->was_built = status == CL_SUCCESS;
  if (notify) notify(program, user);
  return status;
}

cl_int clCompileProgram(cl_program program, cl_uint n, const cl_device_id *devices,
                        const char *options, cl_uint count, const cl_program *headers,
                        const char **names, void(CL_CALLBACK *notify)(cl_program, void *),
                        void *user) {
  Entry entry;
  auto *p = object<Program>(program);
  if (!p) return CL_INVALID_PROGRAM;
  if (cl_int r = check_build(*p, n, devices, notify, user); r != CL_SUCCESS) return r;
  if ((count == 0) != (headers == nullptr) || (count == 0) != (names == nullptr))
    return CL_INVALID_VALUE;
  if (p->from_binary) return CL_INVALID_OPERATION;
  std::string asked = options ? options : "";
  Writer w;
  w.put(p->number);
  put_devices(w, n, devices);
  w.str(with_argument_info(asked)).put(u32{count});
  std::vector<Program::Header> kept;
  for (cl_uint i = 0; i < count; i++) {
    auto *h = object<Program>(headers[i]);
    if (!h || !names[i]) return h ? CL_INVALID_VALUE : CL_INVALID_PROGRAM;
    w.put(h->number).str(names[i]);
    kept.push_back({Ref<Program>(h), names[i]});
  }
  cl_int status = build(*p, static_cast<u16>(Op::CompileProgram), w.take(), asked);
  p->headers = std::move(kept);
  p->was_built = false;
  if (notify) notify(program, user);
  return status;
}

cl_program clLinkProgram(cl_context context, cl_uint n, const cl_device_id *devices,
                         const char *options, cl_uint count, const cl_program *inputs,
                         void(CL_CALLBACK *notify)(cl_program, void *), void *user,
                         cl_int *errcode) {
  Entry entry;
  auto *c = object<Context>(context);
  if (!c) return failed<cl_program>(CL_INVALID_CONTEXT, errcode);
  if (count == 0 || !inputs || (n == 0) != (devices == nullptr) || (!notify && user))
    return failed<cl_program>(CL_INVALID_VALUE, errcode);
  auto *p = new Program;
  p->context = Ref<Context>(c);
  p->options = options ? options : "";
  cl_int status = CL_SUCCESS;
  for (cl_uint i = 0; i < n; i++) {
    auto *d = object<Device>(devices[i]);
    if (!d || !c->has(d)) status = CL_INVALID_DEVICE;
    p->devices.push_back(d);
  }
  if (n == 0) p->devices = c->devices;
  Writer w;
  w.put(c->number);
  put_devices(w, n, devices);
  w.str(p->options).put(u32{count});
  for (cl_uint i = 0; i < count && status == CL_SUCCESS; i++) {
    auto *in = object<Program>(inputs[i]);
    if (!in) {
      status = CL_INVALID_PROGRAM;
      break;
    }
    w.put(in->number);
    p->inputs.emplace_back(in);
    in->was_linked = true;
  }
  if (status == CL_SUCCESS) status = create(p, static_cast<u16>(Op::LinkProgram), w.take());
  p->was_built = status == CL_SUCCESS;
  cl_program made = created<cl_program>(p, status, errcode);
  if (notify) notify(made, user);
  return made;
}

cl_int clUnloadCompiler(void) { return CL_SUCCESS; }

cl_int clUnloadPlatformCompiler(cl_platform_id platform) {
  return object<Platform>(platform) ? CL_SUCCESS : CL_INVALID_PLATFORM;
}

cl_int clGetProgramInfo(cl_program program, cl_program_info param, size_t room, void *value,
                        size_t *needed) {
  Entry entry;
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
  Entry entry;
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
    case CL_PROGRAM_BUILD_GLOBAL_VARIABLE_TOTAL_SIZE:
      return remote_info(InfoOf::ProgramBuild, *p, d->number, param, out);
    default: return CL_INVALID_VALUE;
  }
}

}  // namespace ckpt::ocl::entry
