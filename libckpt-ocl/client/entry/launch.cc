// SPDX-License-Identifier: Apache-2.0
//
// clEnqueueNDRangeKernel. A launch of a new shape makes a round trip, because its immediate errors
// depend on the driver; once the driver has accepted it, launches of the same shape go one way
// (command.h).
#include "libckpt-ocl/client/entry/launch.h"

#include <bit>

#include "common/base/fnv.h"
#include "libckpt-ocl/client/entry/api_call.h"
#include "libckpt-ocl/client/entry/icd.h"
#include "libckpt-ocl/client/entry/kernel.h"
#include "libckpt-ocl/client/slices/sliced_launch.h"

namespace ckpt::ocl {
namespace {

// Bounds the memory: a kernel with more shapes forgets all of them.
constexpr size_t kMaxShapes = 4096;

// The largest launches become requirements on another device.
void note_largest(Kernel &k, const ArgumentList &values, const LaunchShape &s) {
  u64 items = 1, bytes = 0;
  for (cl_uint i = 0; s.local && i < s.dims; i++) {
    u64 size = (*s.local)[i];
    items *= size;
    k.max_local_size[i] = std::max(k.max_local_size[i], size);
  }
  for (const auto &a : values)
    if (a->kind == ArgKind::Local) bytes += a->size;
  if (s.local) k.max_work_items = std::max(k.max_work_items, items);
  k.max_local_bytes = std::max(k.max_local_bytes, bytes);
}

// Notes the buffers that the kernel may write to. A pointer to const does not count as read-only: C
// allows to cast it away.
void note_written(Command &c, const Kernel &k, const ArgumentMemory &memory) {
  for (size_t i = 0; i < memory.size(); i++) {
    Mem *m = memory[i].get();
    if (m && !(m->flags & CL_MEM_READ_ONLY) &&
        k.args[i].qualifier != CL_KERNEL_ARG_ADDRESS_CONSTANT)
      c.writes(*m);
  }
}

const size_t *list_or_null(const std::optional<Sizes> &s) { return s ? s->data() : nullptr; }

std::optional<Sizes> sizes(cl_uint dims, const size_t *list) {
  if (!list || dims > 3) return {};
  Sizes s{};
  std::copy_n(list, dims, s.begin());
  return s;
}

}  // namespace

// Sizes of one class are judged alike: a limit of a device on sizes is a power of two, or one less.
u64 LaunchShape::size_class(cl_uint i) const {
  u64 begin = offset ? (*offset)[i] : 0, size = (*global)[i], end = begin + size;
  u64 place = end < begin ? 65 : static_cast<u64>(std::bit_width(end));
  u64 fits = local && (*local)[i] != 0 && size % (*local)[i] == 0;
  u64 extent = local ? static_cast<u64>(std::bit_width(size)) : size;
  return (extent << 10) ^ (place << 2) ^ (fits << 1) ^ (begin != 0);
}

u64 LaunchShape::hash(const ArgumentList &values, const Queue &q) const {
  // As fnv1a(), but by words: it is computed for every launch.
  u64 h = kFnvStart;
  auto mix = [&h](u64 v) {
    h = (h ^ v) * 0x100000001b3;
    h ^= h >> 32;  // a product carries nothing downwards
  };
  mix(q.device->number);
  mix(dims);
  for (cl_uint i = 0; i < dims; i++) {
    if (!slice) mix(size_class(i));
    mix(local ? (*local)[i] : 0);
  }
  for (const auto &a : values)
    if (a->kind == ArgKind::Local) mix(a->size);
  return h;
}

Work LaunchShape::work(const Kernel &k) const {
  u64 items = 1;
  for (cl_uint i = 0; i < dims; i++) items *= (*global)[i];
  return {k.work_kind + static_cast<u64>(std::bit_width(items)), 0};
}

Trip trip_of(Kernel &k, const ArgumentList &values, const LaunchShape &shape, const Queue &q) {
  std::lock_guard lock(k.mutex);
  return k.accepted.contains(shape.hash(values, q)) ? Trip::OneWay : Trip::Round;
}

cl_int send_launch(Command &c, Kernel &k, const ArgumentList &values, const ArgumentMemory &memory,
                   const LaunchShape &shape) {
  std::lock_guard together(k.mutex);
  send_arguments(k, values);
  note_written(c, k, memory);
  u64 hash = shape.hash(values, c.queue());
  Trip trip = k.accepted.contains(hash) ? Trip::OneWay : Trip::Round;
  c.is(shape.work(k));
  cl_int r = c.send<&::clEnqueueNDRangeKernel>(
      trip, handle<cl_command_queue>(&c.queue()), handle<cl_kernel>(&k), shape.dims,
      list_or_null(shape.offset), list_or_null(shape.global), list_or_null(shape.local),
      c.waits().count, c.waits().list, nullptr);
  if (r != CL_SUCCESS || trip == Trip::OneWay) return r;
  if (k.accepted.size() >= kMaxShapes) k.accepted.clear();
  k.accepted.insert(hash);
  note_largest(k, values, shape);
  return r;
}

namespace {

cl_int launch(cl_command_queue queue, cl_kernel kernel, cl_command_type type,
              const LaunchShape &shape, Waits waits, cl_event *out) {
  auto *k = object<Kernel>(kernel);
  auto *q = object<Queue>(queue);
  if (!q) return CL_INVALID_COMMAND_QUEUE;
  if (!k) return CL_INVALID_KERNEL;
  if (k->program->context.get() != q->context.get()) return CL_INVALID_CONTEXT;
  if (!k->program->built_for(q->device)) return CL_INVALID_PROGRAM_EXECUTABLE;
  if (shape.dims < 1 || shape.dims > 3) return CL_INVALID_WORK_DIMENSION;
  if (!shape.global) return CL_INVALID_GLOBAL_WORK_SIZE;
  std::optional<ArgumentMemory> memory = memory_of(k->values);
  if (!memory) return CL_INVALID_KERNEL_ARGS;
  Command c(queue, type, waits);
  if (c.status() != CL_SUCCESS) return c.status();
  if (std::shared_ptr<SlicedLaunch> slices = divide(*k, *q, shape, *memory)) {
    c.in_parts([slices, q] { return slices->may_send(*q); });
    Trip trip = slices->trip(*q);
    return c.defer(
        out, [slices](Command &it) { return slices->send_next(it); }, trip);
  }
  if (c.can_send_now())
    return c.run_now(out,
                     [&](Command &it) { return send_launch(it, *k, k->values, *memory, shape); });
  auto later = [keep = Ref<Kernel>(k), now = LaunchArguments{k->values, std::move(*memory)}, shape](
                   Command &it) { return send_launch(it, *keep, now.values, now.memory, shape); };
  return c.defer(out, std::move(later), trip_of(*k, k->values, shape, *q));
}

}  // namespace
}  // namespace ckpt::ocl

namespace ckpt::ocl::entry {

cl_int clEnqueueNDRangeKernel(cl_command_queue queue, cl_kernel kernel, cl_uint dims,
                              const size_t *offset, const size_t *global, const size_t *local,
                              cl_uint n, const cl_event *list, cl_event *out) {
  ApiCall call;
  LaunchShape shape{dims, sizes(dims, offset), sizes(dims, global), sizes(dims, local)};
  return launch(queue, kernel, CL_COMMAND_NDRANGE_KERNEL, shape, {n, list}, out);
}

cl_int clEnqueueTask(cl_command_queue queue, cl_kernel kernel, cl_uint n, const cl_event *list,
                     cl_event *out) {
  ApiCall call;
  Sizes one{1, 0, 0};
  return launch(queue, kernel, CL_COMMAND_TASK, {1, {}, one, one}, {n, list}, out);
}

}  // namespace ckpt::ocl::entry
