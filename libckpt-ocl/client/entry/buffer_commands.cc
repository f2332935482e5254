// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <bit>

#include "libckpt-ocl/client/entry/api_call.h"
#include "libckpt-ocl/client/entry/icd.h"
#include "libckpt-ocl/client/object/memory_flags.h"
#include "libckpt-ocl/client/transfer/map.h"
#include "libckpt-ocl/client/transfer/transfer.h"

namespace ckpt::ocl {
namespace {

bool inside(size_t offset, size_t size, size_t whole) {
  return offset <= whole && size <= whole - offset;
}

// Checks queue, buffer and host access of a transfer; `denied` are the flags that forbid it.
cl_int check_transfer(cl_command_queue queue, cl_mem mem, const void *host, cl_mem_flags denied) {
  auto *q = object<Queue>(queue);
  if (!q) return CL_INVALID_COMMAND_QUEUE;
  if (cl_int r = check_mem(*q, mem); r != CL_SUCCESS) return r;
  if (object<Mem>(mem)->image) return CL_INVALID_MEM_OBJECT;
  if (!host) return CL_INVALID_VALUE;
  return object<Mem>(mem)->flags & denied ? CL_INVALID_OPERATION : CL_SUCCESS;
}

// Keeps the objects of a command alive until it is sent.
using Mems = std::vector<Ref<Mem>>;

// The specification's rules for pitches and bounds of rectangles. Replaces pitches of 0 by their
// meaning.
cl_int check_pitches(const size_t region[3], size_t &row, size_t &slice) {
  if (row == 0) row = region[0];
  if (row < region[0]) return CL_INVALID_VALUE;
  if (slice == 0) slice = region[1] * row;
  if (slice < region[1] * row || slice % row != 0) return CL_INVALID_VALUE;
  return CL_SUCCESS;
}

cl_int check_rect(const Mem &mem, const size_t origin[3], const size_t region[3], size_t row,
                  size_t slice) {
  if (region[0] == 0 || region[1] == 0 || region[2] == 0) return CL_INVALID_VALUE;
  size_t last = (origin[2] + region[2] - 1) * slice + (origin[1] + region[1] - 1) * row +
                origin[0] + region[0];
  return last <= mem.size ? CL_SUCCESS : CL_INVALID_VALUE;
}

struct HostRect {
  const size_t *buffer_origin, *host_origin, *region;
  size_t buffer_row, buffer_slice, host_row, host_slice;
};

// Checks the arguments; turns the host's origin into an offset from its pointer.
cl_int make_rect(const Mem &mem, HostRect h, Rect &out, size_t &host_offset) {
  if (!h.buffer_origin || !h.host_origin || !h.region) return CL_INVALID_VALUE;
  if (cl_int r = check_pitches(h.region, h.buffer_row, h.buffer_slice); r != CL_SUCCESS) return r;
  if (cl_int r = check_pitches(h.region, h.host_row, h.host_slice); r != CL_SUCCESS) return r;
  if (cl_int r = check_rect(mem, h.buffer_origin, h.region, h.buffer_row, h.buffer_slice);
      r != CL_SUCCESS)
    return r;
  std::copy_n(h.region, 3, out.region);
  std::copy_n(h.buffer_origin, 3, out.buffer_origin);
  out.buffer_row = h.buffer_row;
  out.buffer_slice = h.buffer_slice;
  out.host_row = h.host_row;
  out.host_slice = h.host_slice;
  host_offset = h.host_origin[0] + h.host_origin[1] * h.host_row + h.host_origin[2] * h.host_slice;
  return CL_SUCCESS;
}

bool overlap(const Mem &a, size_t at_a, const Mem &b, size_t at_b, size_t size) {
  const Mem *root_a = const_cast<Mem &>(a).root(), *root_b = const_cast<Mem &>(b).root();
  size_t x = a.root_offset(at_a), y = b.root_offset(at_b);
  return root_a == root_b && x < y + size && y < x + size;
}

}  // namespace
}  // namespace ckpt::ocl

namespace ckpt::ocl::entry {

cl_int clEnqueueReadBuffer(cl_command_queue queue, cl_mem mem, cl_bool blocking, size_t offset,
                           size_t size, void *host, cl_uint n, const cl_event *list,
                           cl_event *out) {
  ApiCall call;
  if (cl_int r = check_transfer(queue, mem, host, kNoRead); r != CL_SUCCESS) return r;
  Mem &m = *object<Mem>(mem);
  if (size == 0 || !inside(offset, size, m.size)) return CL_INVALID_VALUE;
  return read_buffer(queue, CL_COMMAND_READ_BUFFER, m, offset, size, host,
                     blocking ? Blocking::Yes : Blocking::No, {n, list}, out);
}

cl_int clEnqueueWriteBuffer(cl_command_queue queue, cl_mem mem, cl_bool blocking, size_t offset,
                            size_t size, const void *host, cl_uint n, const cl_event *list,
                            cl_event *out) {
  ApiCall call;
  if (cl_int r = check_transfer(queue, mem, host, kNoWrite); r != CL_SUCCESS) return r;
  Mem &m = *object<Mem>(mem);
  if (size == 0 || !inside(offset, size, m.size)) return CL_INVALID_VALUE;
  return write_buffer(queue, CL_COMMAND_WRITE_BUFFER, m, offset, size, host,
                      blocking ? Blocking::Yes : Blocking::No, {n, list}, out);
}

cl_int clEnqueueReadBufferRect(cl_command_queue queue, cl_mem mem, cl_bool blocking,
                               const size_t *buffer_origin, const size_t *host_origin,
                               const size_t *region, size_t buffer_row, size_t buffer_slice,
                               size_t host_row, size_t host_slice, void *host, cl_uint n,
                               const cl_event *list, cl_event *out) {
  ApiCall call;
  if (cl_int r = check_transfer(queue, mem, host, kNoRead); r != CL_SUCCESS) return r;
  Mem &m = *object<Mem>(mem);
  Rect rect;
  size_t at;
  HostRect h{buffer_origin, host_origin, region, buffer_row, buffer_slice, host_row, host_slice};
  if (cl_int r = make_rect(m, h, rect, at); r != CL_SUCCESS) return r;
  return read_rect(queue, CL_COMMAND_READ_BUFFER_RECT, m, rect, static_cast<std::byte *>(host) + at,
                   blocking ? Blocking::Yes : Blocking::No, {n, list}, out);
}

cl_int clEnqueueWriteBufferRect(cl_command_queue queue, cl_mem mem, cl_bool blocking,
                                const size_t *buffer_origin, const size_t *host_origin,
                                const size_t *region, size_t buffer_row, size_t buffer_slice,
                                size_t host_row, size_t host_slice, const void *host, cl_uint n,
                                const cl_event *list, cl_event *out) {
  ApiCall call;
  if (cl_int r = check_transfer(queue, mem, host, kNoWrite); r != CL_SUCCESS) return r;
  Mem &m = *object<Mem>(mem);
  Rect rect;
  size_t at;
  HostRect h{buffer_origin, host_origin, region, buffer_row, buffer_slice, host_row, host_slice};
  if (cl_int r = make_rect(m, h, rect, at); r != CL_SUCCESS) return r;
  return write_rect(queue, CL_COMMAND_WRITE_BUFFER_RECT, m, rect,
                    static_cast<const std::byte *>(host) + at,
                    blocking ? Blocking::Yes : Blocking::No, {n, list}, out);
}

void *clEnqueueMapBuffer(cl_command_queue queue, cl_mem mem, cl_bool blocking, cl_map_flags flags,
                         size_t offset, size_t size, cl_uint n, const cl_event *list, cl_event *out,
                         cl_int *errcode) {
  ApiCall call;
  Mem::Map map{nullptr, offset, size, flags};
  auto *q = object<Queue>(queue);
  cl_int r = q ? check_mem(*q, mem) : CL_INVALID_COMMAND_QUEUE;
  auto *m = r == CL_SUCCESS ? object<Mem>(mem) : nullptr;
  if (m && m->image) r = CL_INVALID_MEM_OBJECT;
  if (r == CL_SUCCESS && (size == 0 || offset > m->size || size > m->size - offset))
    r = CL_INVALID_VALUE;
  if (r == CL_SUCCESS) r = check_map_flags(*m, flags);
  if (r == CL_SUCCESS)
    r = map_region(queue, CL_COMMAND_MAP_BUFFER, *m, map, blocking ? Blocking::Yes : Blocking::No,
                   {n, list}, out);
  if (errcode) *errcode = r;
  return r == CL_SUCCESS ? map.at : nullptr;
}

cl_int clEnqueueUnmapMemObject(cl_command_queue queue, cl_mem mem, void *at, cl_uint n,
                               const cl_event *list, cl_event *out) {
  ApiCall call;
  auto *q = object<Queue>(queue);
  if (!q) return CL_INVALID_COMMAND_QUEUE;
  if (cl_int r = check_mem(*q, mem); r != CL_SUCCESS) return r;
  return unmap_region(queue, *object<Mem>(mem), at, {n, list}, out);
}

cl_int clEnqueueCopyBuffer(cl_command_queue queue, cl_mem src, cl_mem dst, size_t src_offset,
                           size_t dst_offset, size_t size, cl_uint n, const cl_event *list,
                           cl_event *out) {
  ApiCall call;
  if (cl_int r = check_transfer(queue, src, "", 0); r != CL_SUCCESS) return r;
  if (cl_int r = check_transfer(queue, dst, "", 0); r != CL_SUCCESS) return r;
  Mem &from = *object<Mem>(src), &to = *object<Mem>(dst);
  if (size == 0 || !inside(src_offset, size, from.size) || !inside(dst_offset, size, to.size))
    return CL_INVALID_VALUE;
  if (overlap(from, src_offset, to, dst_offset, size)) return CL_MEM_COPY_OVERLAP;
  Command c(queue, CL_COMMAND_COPY_BUFFER, {n, list});
  if (c.status() != CL_SUCCESS) return c.status();
  c.is(work_of_bytes(c.type(), size));
  return c.run(out, Trip::OneWay, [=, keep = Mems{Ref<Mem>(&from), Ref<Mem>(&to)}](Command &it) {
    it.writes(*keep.back());
    return it.send<&::clEnqueueCopyBuffer>(Trip::OneWay, queue, src, dst, src_offset, dst_offset,
                                           size, it.waits().count, it.waits().list, nullptr);
  });
}

cl_int clEnqueueCopyBufferRect(cl_command_queue queue, cl_mem src, cl_mem dst,
                               const size_t *src_origin, const size_t *dst_origin,
                               const size_t *region, size_t src_row, size_t src_slice,
                               size_t dst_row, size_t dst_slice, cl_uint n, const cl_event *list,
                               cl_event *out) {
  ApiCall call;
  if (cl_int r = check_transfer(queue, src, "", 0); r != CL_SUCCESS) return r;
  if (cl_int r = check_transfer(queue, dst, "", 0); r != CL_SUCCESS) return r;
  if (!src_origin || !dst_origin || !region) return CL_INVALID_VALUE;
  Command c(queue, CL_COMMAND_COPY_BUFFER_RECT, {n, list});
  if (c.status() != CL_SUCCESS) return c.status();
  Mems keep{Ref<Mem>(object<Mem>(src)), Ref<Mem>(object<Mem>(dst))};
  std::array<size_t, 9> v;
  std::copy_n(src_origin, 3, v.begin());
  std::copy_n(dst_origin, 3, v.begin() + 3);
  std::copy_n(region, 3, v.begin() + 6);
  // A round trip: the driver decides whether the rectangles overlap.
  return c.run(out, Trip::Round, [=, keep = std::move(keep)](Command &it) {
    it.writes(*keep.back());
    return it.send<&::clEnqueueCopyBufferRect>(Trip::Round, queue, src, dst, v.data(), v.data() + 3,
                                               v.data() + 6, src_row, src_slice, dst_row, dst_slice,
                                               it.waits().count, it.waits().list, nullptr);
  });
}

cl_int clEnqueueFillBuffer(cl_command_queue queue, cl_mem mem, const void *pattern,
                           size_t pattern_size, size_t offset, size_t size, cl_uint n,
                           const cl_event *list, cl_event *out) {
  ApiCall call;
  if (cl_int r = check_transfer(queue, mem, pattern, 0); r != CL_SUCCESS) return r;
  if (pattern_size == 0 || pattern_size > 128 || !std::has_single_bit(pattern_size) ||
      offset % pattern_size != 0 || size % pattern_size != 0 || size == 0 ||
      !inside(offset, size, object<Mem>(mem)->size))
    return CL_INVALID_VALUE;
  Command c(queue, CL_COMMAND_FILL_BUFFER, {n, list});
  if (c.status() != CL_SUCCESS) return c.status();
  c.is(work_of_bytes(c.type(), size));
  const auto *bytes = static_cast<const std::byte *>(pattern);
  Bytes copy(bytes, bytes + pattern_size);
  return c.run(out, Trip::OneWay, [=, keep = Ref<Mem>(object<Mem>(mem))](Command &it) {
    it.writes(*keep);
    return it.send<&::clEnqueueFillBuffer>(Trip::OneWay, queue, mem, copy.data(), copy.size(),
                                           offset, size, it.waits().count, it.waits().list,
                                           nullptr);
  });
}

cl_int clEnqueueMigrateMemObjects(cl_command_queue queue, cl_uint count, const cl_mem *mems,
                                  cl_mem_migration_flags flags, cl_uint n, const cl_event *list,
                                  cl_event *out) {
  ApiCall call;
  auto *q = object<Queue>(queue);
  if (!q) return CL_INVALID_COMMAND_QUEUE;
  if (count == 0 || !mems) return CL_INVALID_VALUE;
  for (cl_uint i = 0; i < count; i++)
    if (cl_int r = check_mem(*q, mems[i]); r != CL_SUCCESS) return r;
  Command c(queue, CL_COMMAND_MIGRATE_MEM_OBJECTS, {n, list});
  if (c.status() != CL_SUCCESS) return c.status();
  std::vector<cl_mem> all(mems, mems + count);
  Mems keep;
  for (cl_mem m : all) keep.emplace_back(object<Mem>(m));
  return c.run(out, Trip::Round, [=, keep = std::move(keep)](Command &it) {
    if (flags & CL_MIGRATE_MEM_OBJECT_CONTENT_UNDEFINED)
      for (const Ref<Mem> &m : keep) it.writes(*m);
    return it.send<&::clEnqueueMigrateMemObjects>(Trip::Round, queue, count, all.data(), flags,
                                                  it.waits().count, it.waits().list, nullptr);
  });
}

}  // namespace ckpt::ocl::entry
