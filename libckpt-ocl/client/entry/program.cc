// SPDX-License-Identifier: Apache-2.0
#include "libckpt-ocl/client/entry/program.h"

#include <algorithm>
#include <span>

#include "libckpt-ocl/client/entry/api_call.h"
#include "libckpt-ocl/client/entry/icd.h"
#include "libckpt-ocl/client/object/create.h"
#include "libckpt-ocl/client/object/info.h"
#include "libckpt-ocl/client/source/find_headers.h"
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

std::string with_argument_info(const std::string &options) {
  if (asks_for_argument_info(options)) return options;
  return options.empty() ? std::string(kArgumentInfo) : options + " " + std::string(kArgumentInfo);
}

Program *from_source(Context &c, std::string source) {
  auto *p = new Program;
  p->context = Ref<Context>(&c);
  p->devices = c.devices;
  p->source = std::move(source);
  return p;
}

cl_int create_from_source(Program &p) {
  Writer w;
  w.put(p.context->number).str(p.source);
  return create(&p, static_cast<u16>(Op::ProgramSource), w.take());
}

// The common checks of clBuildProgram and clCompileProgram.
template <class Notify>
cl_int check_build(const Program &p, cl_uint n, const cl_device_id *devices, Notify notify,
                   const void *user) {
  if ((n == 0) != (devices == nullptr) || (!notify && user)) return CL_INVALID_VALUE;
  for (cl_uint i = 0; i < n; i++)
    if (!p.built_for(object<Device>(devices[i]))) return CL_INVALID_DEVICE;
  return p.kernels.load() > 0 ? CL_INVALID_OPERATION : CL_SUCCESS;
}

// The number of the constant in an entry of clSetProgramSpecializationConstant.
u32 constant_id(const LedgerEntry &entry) {
  Reader r(entry.payload);
  r.get<u64>();  // the program
  return r.get<u32>();
}

void put_devices(Writer &w, cl_uint n, const cl_device_id *devices) {
  w.put(u32{n});
  for (cl_uint i = 0; i < n; i++)
    w.put(object<Device>(devices[i]) ? object<Device>(devices[i])->number : 0);
}

// Before a build is recorded, drops the ledger entries that it supersedes: earlier builds, unless a
// link used them, and earlier values of the same specialization constants.
void drop_superseded_entries(Program &p) {
  constexpr u16 kConstant = api::spec<&::clSetProgramSpecializationConstant>.op;
  std::vector<LedgerEntry> kept;
  std::set<u32> seen;
  for (size_t i = p.ledger_entries.size(); i-- > 0;) {
    LedgerEntry &entry = p.ledger_entries[i];
    bool constant = entry.op == kConstant;
    if (constant && !seen.insert(constant_id(entry)).second) continue;
    if (constant || i == 0) kept.push_back(std::move(entry));
  }
  std::reverse(kept.begin(), kept.end());
  p.ledger_entries = std::move(kept);
}

// Libraries build many programs with the same headers.
std::shared_ptr<const Headers> shared(Headers headers) {
  static std::mutex mutex;
  static auto *const kLast = new std::weak_ptr<const Headers>;
  std::lock_guard lock(mutex);
  if (auto last = kLast->lock(); last && *last == headers) return last;
  auto made = std::make_shared<const Headers>(std::move(headers));
  *kLast = made;
  return made;
}

FoundHeaders headers_of(const Program &p, const std::string &options) {
  GivenHeaders given;
  for (const Program::Header &h : p.headers) given.emplace_back(h.name, h.program->source);
  return find_headers(p.source, options, given);
}

// Sends the files that a build includes to a compiler on another node.
cl_int send_headers(const Program &p, const std::string &options) {
  if (!link().compiles_elsewhere() || p.from_binary || p.source.empty()) return CL_SUCCESS;
  Headers headers = headers_of(p, options).headers;
  if (headers.empty()) return CL_SUCCESS;
  Writer w;
  w.put(p.number);
  put(w, headers);
  return link().round_trip(Op::Headers, 0, w.bytes());
}

// Keeps the files that a build has included, for the same build on another device.
void record_headers(Program &p, const std::string &options) {
  if (p.from_binary || p.source.empty()) return;
  FoundHeaders found = headers_of(p, options);
  p.missed_files = std::move(found.missed);
  p.files = found.headers.empty() ? nullptr : shared(std::move(found.headers));
  if (p.files) p.record(static_cast<u16>(Op::Headers), Writer().put(p.number).take(), p.files);
}

// A file that it includes may do so, too; the thread then starts with the first output.
bool may_print(const Program &p) {
  return p.source.empty() || p.source.find("printf") != std::string::npos;
}

// Builds or compiles the program, and records how.
cl_int build(Program &p, u16 op, Bytes payload, const std::string &options) {
  link().follow_folder();
  if (may_print(p)) start_taking_output();
  cl_int status = send_headers(p, options);
  if (status == CL_SUCCESS) status = link().round_trip(op, p.number, payload);
  forget_info(&p);
  keep_build_info(p);
  // Destroyed after the lock is released: its kernels leave the registry, under whose lock the
  // agent locks programs (requirements.cc).
  decltype(p.sliced) sliced;
  std::lock_guard lock(p.mutex);
  if (!p.from_binary) p.options = options;
  p.containers.clear();
  sliced = std::move(p.sliced);
  if (!p.was_linked) drop_superseded_entries(p);
  if (status != CL_SUCCESS) return status;
  record_headers(p, options);
  p.record(op, std::move(payload));
  return status;
}

// Adds one device's binary to a new program and to the command that creates it. A container also
// brings its source.
cl_int add_binary(Program &p, Device *d, ByteView binary, Writer &w) {
  if (!d || !p.context->has(d)) return CL_INVALID_DEVICE;
  if (binary.empty()) return CL_INVALID_VALUE;
  if (auto container = Container::unpack(binary)) {
    p.source = container->source;
    p.options = container->options;
    p.units = container->units;
    if (!container->files.empty()) p.files = shared(std::move(container->files));
  }
  p.devices.push_back(d);
  w.put(d->number).blob(binary);
  return CL_SUCCESS;
}

// The program exists; null: the proxy cannot make another one.
Ref<Program> copy_of_source(const Program &p) {
  Program *made = from_source(*p.context, p.source);
  Ref<Program> copy(made);
  cl_int status = create_from_source(*made);
  if (made->app_count.fetch_sub(1) == 1) made->drop();
  return status == CL_SUCCESS ? copy : Ref<Program>();
}

cl_int read_headers(cl_uint count, const cl_program *programs, const char **names,
                    std::vector<Program::Header> &out) {
  for (cl_uint i = 0; i < count; i++) {
    auto *h = object<Program>(programs[i]);
    if (!h || h->from_binary || !h->il.empty()) return CL_INVALID_PROGRAM;
    if (!names[i]) return CL_INVALID_VALUE;
    Ref<Program> copy = copy_of_source(*h);
    if (!copy) return CL_OUT_OF_RESOURCES;
    out.push_back({copy, names[i]});
  }
  return CL_SUCCESS;
}

// No list of devices means all devices of the context.
cl_int set_link_devices(Program &p, std::span<const cl_device_id> devices) {
  if (devices.empty()) p.devices = p.context->devices;
  for (cl_device_id id : devices) {
    auto *d = object<Device>(id);
    if (!d || !p.context->has(d)) return CL_INVALID_DEVICE;
    p.devices.push_back(d);
  }
  return CL_SUCCESS;
}

cl_int add_inputs(Program &p, std::span<const cl_program> inputs) {
  for (cl_program input : inputs) {
    auto *in = object<Program>(input);
    if (!in) return CL_INVALID_PROGRAM;
    p.inputs.emplace_back(Ref<Program>(in));
    in->was_linked = true;
  }
  return CL_SUCCESS;
}

}  // namespace
}  // namespace ckpt::ocl

namespace ckpt::ocl::entry {

cl_program clCreateProgramWithSource(cl_context context, cl_uint n, const char **strings,
                                     const size_t *lengths, cl_int *errcode) {
  ApiCall call;
  auto *c = object<Context>(context);
  if (!c) return failed<cl_program>(CL_INVALID_CONTEXT, errcode);
  std::string source;
  if (cl_int r = read_sources(n, strings, lengths, source); r != CL_SUCCESS)
    return failed<cl_program>(r, errcode);
  Program *p = from_source(*c, std::move(source));
  return created<cl_program>(p, create_from_source(*p), errcode);
}

cl_program clCreateProgramWithBinary(cl_context context, cl_uint n, const cl_device_id *devices,
                                     const size_t *lengths, const unsigned char **binaries,
                                     cl_int *binary_status, cl_int *errcode) {
  ApiCall call;
  auto *c = object<Context>(context);
  if (!c) return failed<cl_program>(CL_INVALID_CONTEXT, errcode);
  if (n == 0 || !devices || !lengths || !binaries)
    return failed<cl_program>(CL_INVALID_VALUE, errcode);
  auto *p = new Program;
  p->context = Ref<Context>(c);
  p->from_binary = true;
  cl_int status = CL_SUCCESS;
  Writer w;
  w.put(c->number).put(u32{n});
  for (cl_uint i = 0; i < n; i++) {
    bool given = lengths[i] > 0 && binaries[i];
    if (binary_status) binary_status[i] = given ? CL_SUCCESS : CL_INVALID_VALUE;
    ByteView binary = given ? view(binaries[i], lengths[i]) : ByteView{};
    cl_int added = add_binary(*p, object<Device>(devices[i]), binary, w);
    if (status == CL_SUCCESS || added == CL_INVALID_DEVICE) status = added;
  }
  if (status == CL_SUCCESS) status = create(p, static_cast<u16>(Op::ProgramBinary), w.take());
  if (status == CL_INVALID_BINARY && binary_status)
    std::fill_n(binary_status, n, CL_INVALID_BINARY);
  return created<cl_program>(p, status, errcode);
}

cl_int clRetainProgram(cl_program program) { return retain<Program>(program, CL_INVALID_PROGRAM); }

cl_int clReleaseProgram(cl_program program) {
  return release_call<Program>(program, CL_INVALID_PROGRAM);
}

cl_int clBuildProgram(cl_program program, cl_uint n, const cl_device_id *devices,
                      const char *options, void(CL_CALLBACK *notify)(cl_program, void *),
                      void *user) {
  ApiCall call;
  auto *p = object<Program>(program);
  if (!p) return CL_INVALID_PROGRAM;
  if (cl_int r = check_build(*p, n, devices, notify, user); r != CL_SUCCESS) return r;
  std::string asked = options ? options : "";
  // A container may be built from its source again, with the options of its first build.
  bool has_options = p->from_binary && !p->source.empty();
  p->headers.clear();
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
  ApiCall call;
  auto *p = object<Program>(program);
  if (!p) return CL_INVALID_PROGRAM;
  if (cl_int r = check_build(*p, n, devices, notify, user); r != CL_SUCCESS) return r;
  if ((count == 0) != (headers == nullptr) || (count == 0) != (names == nullptr))
    return CL_INVALID_VALUE;
  if (p->from_binary) return CL_INVALID_OPERATION;
  std::vector<Program::Header> list;
  if (cl_int r = read_headers(count, headers, names, list); r != CL_SUCCESS) return r;
  std::string asked = options ? options : "";
  Writer w;
  w.put(p->number);
  put_devices(w, n, devices);
  w.str(with_argument_info(asked)).put(u32{count});
  for (const Program::Header &h : list) w.put(h.program->number).str(h.name);
  p->headers = std::move(list);
  cl_int status = build(*p, static_cast<u16>(Op::CompileProgram), w.take(), asked);
  p->was_built = false;
  if (notify) notify(program, user);
  return status;
}

cl_program clLinkProgram(cl_context context, cl_uint n, const cl_device_id *devices,
                         const char *options, cl_uint count, const cl_program *inputs,
                         void(CL_CALLBACK *notify)(cl_program, void *), void *user,
                         cl_int *errcode) {
  ApiCall call;
  auto *c = object<Context>(context);
  if (!c) return failed<cl_program>(CL_INVALID_CONTEXT, errcode);
  if (count == 0 || !inputs || (n == 0) != (devices == nullptr) || (!notify && user))
    return failed<cl_program>(CL_INVALID_VALUE, errcode);
  auto *p = new Program;
  p->context = Ref<Context>(c);
  p->options = options ? options : "";
  cl_int status = set_link_devices(*p, {devices, n});
  if (status == CL_SUCCESS) status = add_inputs(*p, {inputs, count});
  if (status == CL_SUCCESS) {
    Writer w;
    w.put(c->number);
    put_devices(w, n, devices);
    w.str(p->options).put(u32{count});
    for (const Ref<Program> &in : p->inputs) w.put(in->number);
    status = create(p, static_cast<u16>(Op::LinkProgram), w.take());
  }
  p->was_built = status == CL_SUCCESS;
  if (p->was_built) keep_build_info(*p);
  cl_program made = created<cl_program>(p, status, errcode);
  if (notify) notify(made, user);
  return made;
}

cl_int clUnloadCompiler(void) { return CL_SUCCESS; }

cl_int clUnloadPlatformCompiler(cl_platform_id platform) {
  return object<Platform>(platform) ? CL_SUCCESS : CL_INVALID_PLATFORM;
}

}  // namespace ckpt::ocl::entry
