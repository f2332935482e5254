// SPDX-License-Identifier: Apache-2.0
//
// Mapping. The application sees a shadow of the buffer or image in its own address space (or its
// own host_ptr): mapping reads the region into it, unmapping writes it back if it was mapped for
// writing. The shadow is as large as the whole, so that overlapping maps agree about addresses;
// only what was touched costs memory.
#include "libckpt-ocl/client/transfer/map.h"

#include <algorithm>

#include "libckpt-ocl/client/entry/icd.h"
#include "libckpt-ocl/client/object/memory_flags.h"
#include "libckpt-ocl/client/transfer/image_transfer.h"

namespace ckpt::ocl {
namespace {

constexpr cl_map_flags kAllFlags = CL_MAP_READ | CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION;
constexpr cl_map_flags kWrites = CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION;

// Where the host sees the start of `m`, making the root's shadow if need be.
std::byte *host_side(Mem &m) {
  if (m.host_ptr) return m.host_ptr;
  Mem &root = *m.root();
  std::lock_guard lock(root.mutex);
  if (!root.shadow.data) {
    void *p = ::mmap(nullptr, root.size, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) return nullptr;
    root.shadow.data = static_cast<std::byte *>(p);
    root.shadow.bytes = root.size;
  }
  return root.shadow.data + m.root_offset(0);
}

// A command that has nothing to move, but its place in the queue.
cl_int send_nothing(Command &c) {
  return c.send<&::clEnqueueMarkerWithWaitList>(true, handle<cl_command_queue>(&c.queue()),
                                                c.waits().count, c.waits().list, nullptr);
}

cl_int nothing_to_move(cl_command_queue queue, cl_command_type type, Waits waits, Blocking blocking,
                       cl_event *out) {
  Command c(queue, type, waits);
  if (c.status() != CL_SUCCESS) return c.status();
  Ref<Event> done(blocking == Blocking::Yes ? &c.event() : nullptr);
  cl_int r = c.run(out, send_nothing);
  return r == CL_SUCCESS && done && wait(*done) < 0 ? done->status.load() : r;
}

std::vector<Mem::Map>::iterator map_at(Mem &m, const void *at) {
  return std::find_if(m.maps.begin(), m.maps.end(), [&](auto &map) { return map.at == at; });
}

std::optional<Mem::Map> find_map(Mem &m, const void *at) {
  std::lock_guard lock(m.mutex);
  auto it = map_at(m, at);
  return it == m.maps.end() ? std::nullopt : std::optional(*it);
}

void erase_map(Mem &m, const void *at) {
  std::lock_guard lock(m.mutex);
  auto it = map_at(m, at);
  if (it != m.maps.end()) m.maps.erase(it);
}

Pitches pitches(const Mem &m) { return {m.image->row_pitch, m.image->slice_pitch}; }

cl_int read_mapped(cl_command_queue queue, cl_command_type type, Mem &m, const Mem::Map &map,
                   Blocking blocking, Waits waits, cl_event *out) {
  if (map.flags & CL_MAP_WRITE_INVALIDATE_REGION)
    return nothing_to_move(queue, type, waits, blocking, out);
  if (map.box) return read_box(queue, type, m, *map.box, pitches(m), map.at, blocking, waits, out);
  return read_buffer(queue, type, m, map.offset, map.size, map.at, blocking, waits, out);
}

cl_int write_mapped(Command &c, Mem &m, const Mem::Map &map) {
  if (!(map.flags & kWrites)) return send_nothing(c);
  if (map.box) return send_box(c, m, *map.box, pitches(m), map.at);
  return send_write(c, m, map.offset, map.size, map.at);
}

}  // namespace

cl_int check_map_flags(const Mem &m, cl_map_flags flags) {
  if (flags & ~kAllFlags) return CL_INVALID_VALUE;
  if ((flags & CL_MAP_WRITE_INVALIDATE_REGION) && (flags & (CL_MAP_READ | CL_MAP_WRITE)))
    return CL_INVALID_VALUE;
  bool no_read = (flags & CL_MAP_READ) && (m.flags & kNoRead);
  bool no_write = (flags & kWrites) && (m.flags & kNoWrite);
  return no_read || no_write ? CL_INVALID_OPERATION : CL_SUCCESS;
}

cl_int map_region(cl_command_queue queue, cl_command_type type, Mem &m, Mem::Map &map,
                  Blocking blocking, Waits waits, cl_event *out) {
  std::byte *base = host_side(m);
  if (!base) return CL_MAP_FAILURE;
  map.at = base + (map.box ? pitches(m).offset(*m.image, map.box->origin) : map.offset);
  {
    // Before the read: a checkpoint in the middle of it drops shadows that nobody has mapped.
    std::lock_guard lock(m.mutex);
    m.maps.push_back(map);
  }
  cl_int r = read_mapped(queue, type, m, map, blocking, waits, out);
  if (r != CL_SUCCESS)
    erase_map(m, map.at);
  else
    m.keep();  // until it is unmapped
  return r;
}

}  // namespace ckpt::ocl

namespace ckpt::ocl::entry {

void *clEnqueueMapBuffer(cl_command_queue queue, cl_mem mem, cl_bool blocking, cl_map_flags flags,
                         size_t offset, size_t size, cl_uint n, const cl_event *list, cl_event *out,
                         cl_int *errcode) {
  Entry entry;
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
  Entry entry;
  auto *q = object<Queue>(queue);
  if (!q) return CL_INVALID_COMMAND_QUEUE;
  if (cl_int r = check_mem(*q, mem); r != CL_SUCCESS) return r;
  Mem &m = *object<Mem>(mem);
  Command c(queue, CL_COMMAND_UNMAP_MEM_OBJECT, {n, list});
  if (c.status() != CL_SUCCESS) return c.status();
  std::optional<Mem::Map> map = find_map(m, at);
  if (!map) return CL_INVALID_VALUE;
  return c.run(out, [map = *map, keep = Ref<Mem>(&m)](Command &it) {
    cl_int r = write_mapped(it, *keep, map);
    erase_map(*keep, map.at);  // only now that its bytes have left the shadow
    keep->drop();              // as map() kept it
    return r;
  });
}

}  // namespace ckpt::ocl::entry
