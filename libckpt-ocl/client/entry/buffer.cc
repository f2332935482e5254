// SPDX-License-Identifier: Apache-2.0
//
// Buffers. On a device that works on host memory itself, application and proxy share their pages
// (transfer/shared_memory.h). Elsewhere the buffers in the proxy never use the application's
// memory: with CL_MEM_USE_HOST_PTR the device's copy and the host's are synchronized when the
// buffer is mapped and unmapped, which is all that the specification promises.
#include "libckpt-ocl/client/entry/api_call.h"
#include "libckpt-ocl/client/entry/icd.h"
#include "libckpt-ocl/client/lifecycle/manager_requests.h"
#include "libckpt-ocl/client/object/create.h"
#include "libckpt-ocl/client/object/info.h"
#include "libckpt-ocl/client/object/memory_flags.h"
#include "libckpt-ocl/client/svm/allocations.h"
#include "libckpt-ocl/client/transfer/map.h"
#include "libckpt-ocl/client/transfer/rows.h"
#include "libckpt-ocl/client/transfer/shared_memory.h"

namespace ckpt::ocl {
namespace {

// CL_MEM_COPY_HOST_PTR and CL_MEM_USE_HOST_PTR.
cl_int write_initial_contents(Mem &m, const void *host) {
  wait_for_pending_reads(host, m.size);
  if (shares_pages(m)) {
    count_copy(/*to_host=*/false, m.size);
    std::memcpy(host_side(m), host, m.size);
    return CL_SUCCESS;
  }
  return ocl::write_initial_contents(m, [host](size_t at, size_t bytes, std::byte *to) {
    std::memcpy(to, static_cast<const std::byte *>(host) + at, bytes);
  });
}

}  // namespace
}  // namespace ckpt::ocl

namespace ckpt::ocl::entry {

cl_mem clCreateBuffer(cl_context context, cl_mem_flags flags, size_t size, void *host_ptr,
                      cl_int *errcode) {
  ApiCall call;
  auto *c = object<Context>(context);
  if (!c) return failed<cl_mem>(CL_INVALID_CONTEXT, errcode);
  if (cl_int r = check_flags(flags, host_ptr != nullptr); r != CL_SUCCESS)
    return failed<cl_mem>(r, errcode);
  if (size == 0) return failed<cl_mem>(CL_INVALID_BUFFER_SIZE, errcode);
  auto *m = new Mem;
  m->context = Ref<Context>(c);
  m->flags = flags & kKernelAccess ? flags : flags | CL_MEM_READ_WRITE;
  m->size = size;
  if (flags & CL_MEM_USE_HOST_PTR) m->host_ptr = static_cast<std::byte *>(host_ptr);
  if (m->host_ptr && link().usable())
    if (std::optional<Allocations::Place> place = allocations().find(host_ptr, size))
      m->block = place->block;
  cl_mem_flags there = m->flags & ~(kHostPointer | kHostAccess);
  cl_int status = create_managed(*m, size, [&] {
    return create<&::clCreateBuffer>(m, context, there, size, nullptr, nullptr);
  });
  if (status == CL_SUCCESS) status = share_memory(*m);
  bool has_contents = m->host_ptr && shares_pages(*m);
  if (status == CL_SUCCESS && host_ptr && !has_contents)
    status = write_initial_contents(*m, host_ptr);
  return created<cl_mem>(m, status, errcode);
}

cl_mem clCreateBufferWithProperties(cl_context context, const cl_mem_properties *properties,
                                    cl_mem_flags flags, size_t size, void *host_ptr,
                                    cl_int *errcode) {
  std::vector<cl_mem_properties> copy;
  if (cl_int r = read_properties(properties, copy); r != CL_SUCCESS)
    return failed<cl_mem>(r, errcode);
  cl_mem made = entry::clCreateBuffer(context, flags, size, host_ptr, errcode);
  if (made) object<Mem>(made)->properties = std::move(copy);
  return made;
}

cl_mem clCreateSubBuffer(cl_mem buffer, cl_mem_flags flags, cl_buffer_create_type type,
                         const void *info, cl_int *errcode) {
  ApiCall call;
  auto *parent = object<Mem>(buffer);
  if (!parent || parent->parent || parent->image)
    return failed<cl_mem>(CL_INVALID_MEM_OBJECT, errcode);
  if (type != CL_BUFFER_CREATE_TYPE_REGION || !info || (flags & kHostPointer))
    return failed<cl_mem>(CL_INVALID_VALUE, errcode);
  const auto &region = *static_cast<const cl_buffer_region *>(info);
  if (region.size == 0) return failed<cl_mem>(CL_INVALID_BUFFER_SIZE, errcode);
  if (region.origin > parent->size || region.size > parent->size - region.origin)
    return failed<cl_mem>(CL_INVALID_VALUE, errcode);
  auto *m = new Mem;
  m->context = parent->context;
  m->parent = Ref<Mem>(parent);
  m->flags = inherited(flags, parent->flags);
  m->size = region.size;
  m->origin = region.origin;
  if (parent->host_ptr) m->host_ptr = parent->host_ptr + region.origin;
  cl_mem_flags there = flags & kKernelAccess;
  cl_int status = create<&::clCreateSubBuffer>(m, buffer, there, type, info, nullptr);
  return created<cl_mem>(m, status, errcode);
}

cl_int clRetainMemObject(cl_mem mem) { return retain<Mem>(mem, CL_INVALID_MEM_OBJECT); }

cl_int clReleaseMemObject(cl_mem mem) { return release_call<Mem>(mem, CL_INVALID_MEM_OBJECT); }

cl_int clSetMemObjectDestructorCallback(cl_mem mem, void(CL_CALLBACK *fn)(cl_mem, void *),
                                        void *user) {
  ApiCall call;
  auto *m = object<Mem>(mem);
  if (!m) return CL_INVALID_MEM_OBJECT;
  if (!fn) return CL_INVALID_VALUE;
  std::lock_guard lock(m->mutex);
  m->callbacks.push_back({fn, user});
  return CL_SUCCESS;
}

cl_int clGetMemObjectInfo(cl_mem mem, cl_mem_info param, size_t room, void *value, size_t *needed) {
  ApiCall call;
  Answer out{room, value, needed};
  auto *m = object<Mem>(mem);
  if (!m) return CL_INVALID_MEM_OBJECT;
  switch (param) {
    case CL_MEM_TYPE:
      return out.scalar(m->image ? m->image->desc.image_type
                                 : cl_mem_object_type{CL_MEM_OBJECT_BUFFER});
    case CL_MEM_FLAGS: return out.scalar(m->flags);
    case CL_MEM_SIZE: return out.scalar(m->size);
    case CL_MEM_HOST_PTR: return out.scalar(static_cast<void *>(m->host_ptr));
    case CL_MEM_MAP_COUNT: {
      std::lock_guard lock(m->mutex);
      return out.scalar(static_cast<cl_uint>(m->maps.size()));
    }
    case CL_MEM_REFERENCE_COUNT: return out.scalar(cl_uint{m->app_count.load()});
    case CL_MEM_CONTEXT: return out.scalar(handle<cl_context>(m->context.get()));
    case CL_MEM_ASSOCIATED_MEMOBJECT: return out.scalar(handle<cl_mem>(m->parent.get()));
    case CL_MEM_OFFSET: return out.scalar(m->origin);
    case CL_MEM_PROPERTIES: return out.list(m->properties);
    case CL_MEM_USES_SVM_POINTER: return out.scalar(cl_bool{bool{m->root()->block}});
    default: return CL_INVALID_VALUE;
  }
}

}  // namespace ckpt::ocl::entry
