// SPDX-License-Identifier: Apache-2.0
//
// Kernels. Arguments are sent with the next launch, because a program may set the same one
// thousands of times a second. The driver checks the first value of each size and kind with a round
// trip; later values of the same size and kind need no check.
#include "libckpt-ocl/client/entry/kernel.h"

#include "common/base/fnv.h"
#include "libckpt-ocl/client/entry/api_call.h"
#include "libckpt-ocl/client/entry/icd.h"
#include "libckpt-ocl/client/entry/program.h"
#include "libckpt-ocl/client/entry/svm.h"
#include "libckpt-ocl/client/object/create.h"
#include "libckpt-ocl/client/object/info.h"
#include "libckpt-ocl/client/object/memory_flags.h"
#include "libckpt-ocl/client/svm/allocations.h"

namespace ckpt::ocl {
namespace {

cl_int learn_arguments(Kernel &k) {
  Writer w;
  w.put(k.number);
  Bytes reply;
  cl_int status = link().round_trip(Op::KernelParameters, 0, w.bytes(), &reply);
  if (status != CL_SUCCESS) return status;
  Reader r(reply);
  u32 n = r.get<u32>();
  for (u32 i = 0; i < n && r.ok(); i++) {
    KernelArgument &a = k.args.emplace_back();
    a.qualifier = r.get<u32>();
    a.type = r.str();
  }
  k.values.resize(k.args.size());
  return r.ok() ? CL_SUCCESS : CL_OUT_OF_RESOURCES;
}

u64 next_value() {
  static std::atomic<u64> last{0};
  return last.fetch_add(1) + 1;
}

Kernel *make_kernel(Program &p, const std::string &name, cl_int &status) {
  auto *k = new Kernel;
  k->program = Ref<Program>(&p);
  k->name = name;
  k->work_kind = fnv1a(name, fnv1a(text(view(&p.number, sizeof p.number))));
  p.kernels.fetch_add(1);
  status = create<&::clCreateKernel>(k, handle<cl_program>(&p), name.c_str(), nullptr);
  if (status == CL_SUCCESS) status = learn_arguments(*k);
  if (status == CL_SUCCESS) return k;
  destroy(k);
  return nullptr;
}

const void *handle_in(const void *value) {
  const void *handle;
  std::memcpy(&handle, value, sizeof handle);
  return handle;
}

bool is_buffer(const KernelArgument &a, size_t size, const void *value) {
  if (a.qualifier != 0)
    return a.qualifier == CL_KERNEL_ARG_ADDRESS_GLOBAL ||
           a.qualifier == CL_KERNEL_ARG_ADDRESS_CONSTANT;
  // The driver does not report the parameter's type, which only happens with programs from native
  // binaries. A number that equals the address of a live buffer would be taken for the buffer.
  if (size != sizeof(cl_mem) || !value) return false;
  return registry().holds(handle_in(value), Kind::Mem);
}

bool is_sampler(const KernelArgument &a, size_t size, const void *value) {
  if (a.qualifier != 0) return a.type == "sampler_t";
  return size == sizeof(cl_sampler) && value && registry().holds(handle_in(value), Kind::Sampler);
}

cl_int read_sampler(const Kernel &k, ArgumentValue &a, size_t size, const void *value) {
  a.kind = ArgKind::Sampler;
  if (!value) return CL_INVALID_ARG_VALUE;
  if (size != sizeof(cl_sampler)) return CL_INVALID_ARG_SIZE;
  auto *s = object<Sampler>(handle_in(value));
  if (!s || s->context.get() != k.program->context.get()) return CL_INVALID_SAMPLER;
  a.sampler = Ref<Sampler>(s);
  return CL_SUCCESS;
}

// Reads the value of clSetKernelArg and returns the errors that need no driver.
cl_int read_argument(const Kernel &k, const KernelArgument &parameter, ArgumentValue &a,
                     size_t size, const void *value) {
  a.number = next_value();
  a.size = size;
  if (is_sampler(parameter, size, value)) return read_sampler(k, a, size, value);
  if (!value && parameter.qualifier == CL_KERNEL_ARG_ADDRESS_LOCAL) {
    a.kind = ArgKind::Local;
    return size > 0 ? CL_SUCCESS : CL_INVALID_ARG_SIZE;
  }
  if (is_buffer(parameter, size, value)) {
    a.kind = ArgKind::Mem;
    if (size != sizeof(cl_mem)) return CL_INVALID_ARG_SIZE;
    const void *handle = value ? handle_in(value) : nullptr;
    if (!handle) return CL_SUCCESS;
    auto *m = object<Mem>(handle);
    if (!m || m->context.get() != k.program->context.get()) return CL_INVALID_MEM_OBJECT;
    a.mem = m->number;
    if (m->image)
      a.image_kind = static_cast<int>(m->image->desc.image_type & 0xff) << 8 |
                     static_cast<int>(m->flags & kKernelAccess) << 16;
    return CL_SUCCESS;
  }
  a.kind = value ? ArgKind::Bytes
                 : ArgKind::Local;  // of an unknown type, NULL can only mean local memory
  if (parameter.qualifier == CL_KERNEL_ARG_ADDRESS_LOCAL && value) return CL_INVALID_ARG_VALUE;
  if (parameter.qualifier == CL_KERNEL_ARG_ADDRESS_PRIVATE && !value) return CL_INVALID_ARG_VALUE;
  const auto *b = static_cast<const std::byte *>(value);
  if (value) a.value.assign(b, b + size);
  return CL_SUCCESS;
}

// What the driver's check of a value depends on besides its size; for an image also its type and
// access flags.
int kind_of_value(const ArgumentValue &a) { return static_cast<int>(a.kind) | a.image_kind; }

void put_argument(Payload &w, u32 index, const ArgumentValue &a) {
  w.put(index).put(u64{a.size}).put(a.kind);
  if (a.kind == ArgKind::Mem)
    w.put(a.mem);
  else if (a.kind == ArgKind::Sampler)
    w.put(u64{a.sampler->number});
  else if (a.kind == ArgKind::Pointer)
    w.put(a.mem).put(u64{a.offset});
  else
    w.blob(a.value);
}

// The driver's answer to a value of a size or kind that it has not accepted before.
cl_int judge_argument(const Kernel &k, u32 index, const ArgumentValue &a) {
  Payload w;
  w.put(k.number).put(u32{1});
  put_argument(w, index, a);
  return link().round_trip(Op::KernelArgs, 0, w.bytes());
}

// Sets a value that was read.
cl_int set_argument(Kernel &k, cl_uint index, std::shared_ptr<const ArgumentValue> a) {
  KernelArgument &parameter = k.args[index];
  std::pair<size_t, int> shape{a->size, kind_of_value(*a)};
  std::lock_guard lock(k.mutex);
  if (!parameter.accepted.contains(shape)) {
    if (cl_int r = judge_argument(k, index, *a); r != CL_SUCCESS) return r;
    parameter.accepted.insert(shape);
    parameter.in_proxy = a->number;
  }
  k.values[index] = std::move(a);
  return CL_SUCCESS;
}

// A pointer into shared virtual memory, or null, which is that of a buffer.
cl_int read_pointer(const KernelArgument &parameter, ArgumentValue &a, const void *pointer) {
  bool fits = parameter.qualifier == 0 || is_buffer(parameter, 0, nullptr);
  if (!fits) return CL_INVALID_ARG_VALUE;
  a.number = next_value();
  a.size = sizeof pointer;
  a.kind = pointer ? ArgKind::Pointer : ArgKind::Mem;
  if (!pointer) return CL_SUCCESS;
  std::optional<Allocations::Place> place = allocations().find(pointer);
  if (!place) return CL_INVALID_ARG_VALUE;
  a.mem = place->block->number;
  a.offset = place->offset;
  return CL_SUCCESS;
}

// The driver's answer counts the local memory of the arguments that it has (OpenCL 3.0,
// CL_KERNEL_LOCAL_MEM_SIZE), so that those are sent first, and it is asked each time.
cl_int local_memory(Kernel &k, const Device &d, const Answer &out) {
  ArgumentList local(k.values.size());
  for (size_t i = 0; i < local.size(); i++)
    if (k.values[i] && k.values[i]->kind == ArgKind::Local) local[i] = k.values[i];
  Bytes value;
  std::lock_guard lock(k.mutex);  // no deferred launch sends others in between
  send_arguments(k, local);
  cl_int status =
      asked_info(InfoOf::KernelWorkGroup, k.number, d.number, CL_KERNEL_LOCAL_MEM_SIZE, value);
  return status == CL_SUCCESS ? out.bytes(value) : status;
}

}  // namespace

void send_arguments(Kernel &k, const ArgumentList &values) {
  auto is_new = [&](u32 i) { return values[i] && values[i]->number != k.args[i].in_proxy; };
  u32 n = 0;
  for (u32 i = 0; i < values.size(); i++) n += is_new(i);
  if (n == 0) return;
  Payload w;
  w.put(k.number).put(n);
  for (u32 i = 0; i < values.size(); i++) {
    if (!is_new(i)) continue;
    put_argument(w, i, *values[i]);
    k.args[i].in_proxy = values[i]->number;
  }
  link().send(Op::KernelArgs, 0, w.bytes());
}

std::optional<ArgumentMemory> memory_of(const ArgumentList &values) {
  ArgumentMemory memory(values.size());
  for (size_t i = 0; i < values.size(); i++) {
    if (!values[i]) return {};
    if (values[i]->mem == 0) continue;
    memory[i] = registry().find<Mem>(values[i]->mem);
    if (!memory[i]) return {};
  }
  return memory;
}

void forget_proxy_state(Kernel &k) {
  k.accepted.clear();
  for (KernelArgument &a : k.args) {
    a.in_proxy = 0;
    a.accepted.clear();
  }
}

}  // namespace ckpt::ocl

namespace ckpt::ocl::entry {

cl_kernel clCreateKernel(cl_program program, const char *name, cl_int *errcode) {
  ApiCall call;
  auto *p = object<Program>(program);
  if (!p) return failed<cl_kernel>(CL_INVALID_PROGRAM, errcode);
  if (!name) return failed<cl_kernel>(CL_INVALID_VALUE, errcode);
  cl_int status;
  Kernel *k = make_kernel(*p, name, status);
  if (errcode) *errcode = status;
  return handle<cl_kernel>(k);
}

cl_int clCreateKernelsInProgram(cl_program program, cl_uint room, cl_kernel *kernels,
                                cl_uint *count) {
  ApiCall call;
  auto *p = object<Program>(program);
  if (!p) return CL_INVALID_PROGRAM;
  if (!p->was_built) return CL_INVALID_PROGRAM_EXECUTABLE;
  std::vector<std::string> names = kernel_names(*p);
  if (kernels && room < names.size()) return CL_INVALID_VALUE;
  if (count) *count = static_cast<cl_uint>(names.size());
  for (size_t i = 0; kernels && i < names.size(); i++) {
    cl_int status;
    kernels[i] = handle<cl_kernel>(make_kernel(*p, names[i], status));
    if (status == CL_SUCCESS) continue;
    while (i-- > 0) entry::clReleaseKernel(kernels[i]);
    return status;
  }
  return CL_SUCCESS;
}

cl_kernel clCloneKernel(cl_kernel source, cl_int *errcode) {
  ApiCall call;
  auto *from = object<Kernel>(source);
  if (!from) return failed<cl_kernel>(CL_INVALID_KERNEL, errcode);
  cl_int status;
  Kernel *k = make_kernel(*from->program, from->name, status);
  if (k) k->values = from->values;
  if (errcode) *errcode = status;
  return handle<cl_kernel>(k);
}

cl_int clRetainKernel(cl_kernel kernel) { return retain<Kernel>(kernel, CL_INVALID_KERNEL); }

cl_int clReleaseKernel(cl_kernel kernel) { return release_call<Kernel>(kernel, CL_INVALID_KERNEL); }

cl_int clSetKernelArg(cl_kernel kernel, cl_uint index, size_t size, const void *value) {
  ApiCall call;
  auto *k = object<Kernel>(kernel);
  if (!k) return CL_INVALID_KERNEL;
  if (index >= k->args.size()) return CL_INVALID_ARG_INDEX;
  if (!link().usable()) return CL_DEVICE_NOT_AVAILABLE;
  auto a = std::make_shared<ArgumentValue>();
  if (cl_int r = read_argument(*k, k->args[index], *a, size, value); r != CL_SUCCESS) return r;
  return set_argument(*k, index, std::move(a));
}

cl_int clSetKernelArgSVMPointer(cl_kernel kernel, cl_uint index, const void *pointer) {
  ApiCall call;
  auto *k = object<Kernel>(kernel);
  if (!k) return CL_INVALID_KERNEL;
  if (svm_capabilities(*k->program->context, "clSetKernelArgSVMPointer") == 0)
    return CL_INVALID_OPERATION;
  if (index >= k->args.size()) return CL_INVALID_ARG_INDEX;
  if (!link().usable()) return CL_DEVICE_NOT_AVAILABLE;
  auto a = std::make_shared<ArgumentValue>();
  if (cl_int r = read_pointer(k->args[index], *a, pointer); r != CL_SUCCESS) return r;
  return set_argument(*k, index, std::move(a));
}

cl_int clGetKernelInfo(cl_kernel kernel, cl_kernel_info param, size_t room, void *value,
                       size_t *needed) {
  ApiCall call;
  Answer out{room, value, needed};
  auto *k = object<Kernel>(kernel);
  if (!k) return CL_INVALID_KERNEL;
  switch (param) {
    case CL_KERNEL_FUNCTION_NAME: return out.text(k->name);
    case CL_KERNEL_NUM_ARGS: return out.scalar(static_cast<cl_uint>(k->args.size()));
    case CL_KERNEL_REFERENCE_COUNT: return out.scalar(cl_uint{k->app_count.load()});
    case CL_KERNEL_CONTEXT: return out.scalar(handle<cl_context>(k->program->context.get()));
    case CL_KERNEL_PROGRAM: return out.scalar(handle<cl_program>(k->program.get()));
    case CL_KERNEL_ATTRIBUTES: return remote_info(InfoOf::Kernel, *k, 0, param, out);
    default: return CL_INVALID_VALUE;
  }
}

// The proxy always builds with argument information; the application gets it only if it asked for
// it, as the specification says.
cl_int clGetKernelArgInfo(cl_kernel kernel, cl_uint index, cl_kernel_arg_info param, size_t room,
                          void *value, size_t *needed) {
  ApiCall call;
  auto *k = object<Kernel>(kernel);
  if (!k) return CL_INVALID_KERNEL;
  if (index >= k->args.size()) return CL_INVALID_ARG_INDEX;
  if (!shows_argument_info(*k->program)) return CL_KERNEL_ARG_INFO_NOT_AVAILABLE;
  return remote_info(InfoOf::KernelArg, *k, index, param, Answer{room, value, needed});
}

cl_int clGetKernelWorkGroupInfo(cl_kernel kernel, cl_device_id device,
                                cl_kernel_work_group_info param, size_t room, void *value,
                                size_t *needed) {
  ApiCall call;
  auto *k = object<Kernel>(kernel);
  if (!k) return CL_INVALID_KERNEL;
  auto *d = object<Device>(device);
  const auto &devices = k->program->devices;
  if (!d && !device && devices.size() == 1) d = devices.front();
  if (!d || !k->program->built_for(d)) return CL_INVALID_DEVICE;
  Answer out{room, value, needed};
  if (param == CL_KERNEL_LOCAL_MEM_SIZE) return local_memory(*k, *d, out);
  return remote_info(InfoOf::KernelWorkGroup, *k, d->number, param, out);
}

}  // namespace ckpt::ocl::entry
