// SPDX-License-Identifier: Apache-2.0
//
// Commands on shared virtual memory. Application and device have the same pages, so that maps,
// unmaps and migrations move nothing and only keep their places in the queue. Copies and fills are
// those of buffers (client/svm/block.h).
#include <bit>

#include "libckpt-ocl/client/command/callbacks.h"
#include "libckpt-ocl/client/entry/api_call.h"
#include "libckpt-ocl/client/entry/icd.h"
#include "libckpt-ocl/client/entry/svm.h"
#include "libckpt-ocl/client/svm/allocations.h"
#include "libckpt-ocl/client/transfer/in_place.h"
#include "libckpt-ocl/client/transfer/map.h"

namespace ckpt::ocl {
namespace {

cl_int check_queue(cl_command_queue queue, std::string_view function) {
  auto *q = object<Queue>(queue);
  if (!q) return CL_INVALID_COMMAND_QUEUE;
  if (!link().usable()) return CL_DEVICE_NOT_AVAILABLE;
  return svm_capabilities(*q->context, function) ? CL_SUCCESS : CL_INVALID_OPERATION;
}

// A command that moves nothing.
cl_int keep_place(cl_command_queue queue, cl_command_type type, cl_bool blocking, Waits waits,
                  cl_event *out) {
  Command c(queue, type, waits);
  if (c.status() != CL_SUCCESS) return c.status();
  if (runs_at_once(c, out)) return hand_out_finished(c, out);
  return enqueue_marker(queue, type, waits, blocking ? Blocking::Yes : Blocking::No, out);
}

// The event of a transfer, which a blocking call waits for: a write has otherwise only read its
// source when the call returns.
cl_int hand_on(cl_int status, cl_bool blocking, cl_event made, cl_event *out) {
  if (status != CL_SUCCESS) return status;
  if (blocking) status = std::min(0, wait(*object<Event>(made)));
  if (out)
    *out = made;
  else
    release<Event>(made, CL_INVALID_EVENT);
  return status;
}

cl_int copy_inside(cl_command_queue queue, const Allocations::Place &to,
                   const Allocations::Place &from, size_t size, Waits waits, cl_event *out) {
  if (to.address() < from.address() + size && from.address() < to.address() + size)
    return CL_MEM_COPY_OVERLAP;
  Command c(queue, CL_COMMAND_SVM_MEMCPY, waits);
  if (c.status() != CL_SUCCESS) return c.status();
  c.is(work_of_bytes(c.type(), size));
  return c.run(out, Trip::OneWay, [=](Command &it) {
    return it.send<&::clEnqueueCopyBuffer>(Trip::OneWay, queue, handle<cl_mem>(from.block.get()),
                                           handle<cl_mem>(to.block.get()), from.offset, to.offset,
                                           size, it.waits().count, it.waits().list, nullptr);
  });
}

// Between two places of the program's own memory: through a buffer.
cl_int copy_outside(cl_command_queue queue, void *to, const void *from, size_t size, Waits waits,
                    cl_event *out) {
  cl_int status;
  cl_mem between = entry::clCreateBuffer(handle<cl_context>(object<Queue>(queue)->context.get()),
                                         CL_MEM_READ_WRITE, size, nullptr, &status);
  if (!between) return status;
  Mem &m = *object<Mem>(between);
  cl_event written = nullptr;
  status =
      write_buffer(queue, CL_COMMAND_SVM_MEMCPY, m, 0, size, from, Blocking::No, waits, &written);
  if (status == CL_SUCCESS) {
    status =
        read_buffer(queue, CL_COMMAND_SVM_MEMCPY, m, 0, size, to, Blocking::No, {1, &written}, out);
    release<Event>(written, CL_INVALID_EVENT);
  }
  release<Mem>(between, CL_INVALID_MEM_OBJECT);
  return status;
}

cl_int copy(cl_command_queue queue, void *to, const void *from, size_t size, Waits waits,
            cl_event *out) {
  std::optional<Allocations::Place> target = allocations().find(to, size),
                                    source = allocations().find(from, size);
  if (target && source) return copy_inside(queue, *target, *source, size, waits, out);
  if (target)
    return write_buffer(queue, CL_COMMAND_SVM_MEMCPY, *target->block, target->offset, size, from,
                        Blocking::No, waits, out);
  if (source)
    return read_buffer(queue, CL_COMMAND_SVM_MEMCPY, *source->block, source->offset, size, to,
                       Blocking::No, waits, out);
  return copy_outside(queue, to, from, size, waits, out);
}

// clEnqueueSVMFree: the library frees, or leaves it to the program's function.
struct LaterFree {
  Ref<Queue> queue;
  std::vector<void *> pointers;
  void(CL_CALLBACK *function)(cl_command_queue, cl_uint, void *[], void *);
  void *user;
};

// On the thread that makes callbacks. After an error of its wait list the command is not carried
// out.
void CL_CALLBACK free_now(cl_event, cl_int status, void *what) {
  std::unique_ptr<LaterFree> f(static_cast<LaterFree *>(what));
  if (status >= 0 && f->function)
    f->function(handle<cl_command_queue>(f->queue.get()), static_cast<cl_uint>(f->pointers.size()),
                f->pointers.data(), f->user);
  ApiCall call;
  if (status >= 0 && !f->function)
    for (void *p : f->pointers) allocations().free(p);
  f.reset();  // it may be the last that keeps the queue
  link().flush_releases();
}

}  // namespace
}  // namespace ckpt::ocl

namespace ckpt::ocl::entry {

cl_int clEnqueueSVMMap(cl_command_queue queue, cl_bool blocking, cl_map_flags flags, void *at,
                       size_t size, cl_uint n, const cl_event *list, cl_event *out) {
  ApiCall call;
  if (cl_int r = check_queue(queue, "clEnqueueSVMMap"); r != CL_SUCCESS) return r;
  if (size == 0 || !are_map_flags_valid(flags) || !allocations().find(at, size))
    return CL_INVALID_VALUE;
  return keep_place(queue, CL_COMMAND_SVM_MAP, blocking, {n, list}, out);
}

cl_int clEnqueueSVMUnmap(cl_command_queue queue, void *at, cl_uint n, const cl_event *list,
                         cl_event *out) {
  ApiCall call;
  if (cl_int r = check_queue(queue, "clEnqueueSVMUnmap"); r != CL_SUCCESS) return r;
  if (!allocations().find(at)) return CL_INVALID_VALUE;
  return keep_place(queue, CL_COMMAND_SVM_UNMAP, CL_FALSE, {n, list}, out);
}

cl_int clEnqueueSVMMigrateMem(cl_command_queue queue, cl_uint count, const void **pointers,
                              const size_t *sizes, cl_mem_migration_flags flags, cl_uint n,
                              const cl_event *list, cl_event *out) {
  constexpr cl_mem_migration_flags kKnown =
      CL_MIGRATE_MEM_OBJECT_HOST | CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED;
  ApiCall call;
  if (cl_int r = check_queue(queue, "clEnqueueSVMMigrateMem"); r != CL_SUCCESS) return r;
  if (count == 0 || !pointers || (flags & ~kKnown)) return CL_INVALID_VALUE;
  for (cl_uint i = 0; i < count; i++)
    if (!allocations().find(pointers[i], sizes && sizes[i] > 0 ? sizes[i] : 1))
      return CL_INVALID_VALUE;
  return keep_place(queue, CL_COMMAND_SVM_MIGRATE_MEM, CL_FALSE, {n, list}, out);
}

cl_int clEnqueueSVMMemcpy(cl_command_queue queue, cl_bool blocking, void *to, const void *from,
                          size_t size, cl_uint n, const cl_event *list, cl_event *out) {
  ApiCall call;
  if (cl_int r = check_queue(queue, "clEnqueueSVMMemcpy"); r != CL_SUCCESS) return r;
  if (!to || !from) return CL_INVALID_VALUE;
  if (size == 0) return keep_place(queue, CL_COMMAND_SVM_MEMCPY, blocking, {n, list}, out);
  cl_event made = nullptr;
  cl_int r = copy(queue, to, from, size, {n, list}, blocking || out ? &made : nullptr);
  return blocking || out ? hand_on(r, blocking, made, out) : r;
}

cl_int clEnqueueSVMMemFill(cl_command_queue queue, void *at, const void *pattern,
                           size_t pattern_size, size_t size, cl_uint n, const cl_event *list,
                           cl_event *out) {
  ApiCall call;
  if (cl_int r = check_queue(queue, "clEnqueueSVMMemFill"); r != CL_SUCCESS) return r;
  std::optional<Allocations::Place> place = allocations().find(at, size);
  if (!place || !pattern || pattern_size == 0 || pattern_size > 128 ||
      !std::has_single_bit(pattern_size) || place->offset % pattern_size != 0 || size == 0 ||
      size % pattern_size != 0)
    return CL_INVALID_VALUE;
  Command c(queue, CL_COMMAND_SVM_MEMFILL, {n, list});
  if (c.status() != CL_SUCCESS) return c.status();
  c.is(work_of_bytes(c.type(), size));
  const auto *bytes = static_cast<const std::byte *>(pattern);
  return c.run(
      out, Trip::OneWay, [=, copy = Bytes(bytes, bytes + pattern_size), to = *place](Command &it) {
        return it.send<&::clEnqueueFillBuffer>(Trip::OneWay, queue, handle<cl_mem>(to.block.get()),
                                               copy.data(), copy.size(), to.offset, size,
                                               it.waits().count, it.waits().list, nullptr);
      });
}

cl_int clEnqueueSVMFree(cl_command_queue queue, cl_uint count, void *pointers[],
                        void(CL_CALLBACK *function)(cl_command_queue, cl_uint, void *[], void *),
                        void *user, cl_uint n, const cl_event *list, cl_event *out) {
  ApiCall call;
  if (cl_int r = check_queue(queue, "clEnqueueSVMFree"); r != CL_SUCCESS) return r;
  if ((count == 0) != (pointers == nullptr)) return CL_INVALID_VALUE;
  Command c(queue, CL_COMMAND_SVM_FREE, {n, list});
  if (c.status() != CL_SUCCESS) return c.status();
  auto later = std::make_unique<LaterFree>();
  later->queue = Ref<Queue>(object<Queue>(queue));
  later->pointers.assign(pointers, pointers + count);
  later->function = function;
  later->user = user;
  if (!add_callback(c.event(), {CL_COMPLETE, free_now, later.get()})) return CL_OUT_OF_HOST_MEMORY;
  (void)later.release();  // free_now() frees it
  return c.run(out, Trip::OneWay, send_marker);
}

}  // namespace ckpt::ocl::entry
