// SPDX-License-Identifier: Apache-2.0
//
// Mapping. The application sees a shadow of the buffer in its own address space (or its own
// host_ptr): mapping reads the region into it, unmapping writes it back if it was mapped for
// writing. The shadow is as large as the buffer, so that overlapping maps agree about addresses;
// only what was touched costs memory.
#include <algorithm>

#include "libckpt-ocl/client/icd.h"
#include "libckpt-ocl/client/transfer.h"

namespace ckpt::ocl {
namespace {

constexpr cl_map_flags kAllFlags = CL_MAP_READ | CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION;
constexpr cl_map_flags kWrites = CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION;

cl_int check_map(const Mem &m, cl_map_flags flags, size_t offset, size_t size) {
  if (flags & ~kAllFlags) return CL_INVALID_VALUE;
  if ((flags & CL_MAP_WRITE_INVALIDATE_REGION) && (flags & (CL_MAP_READ | CL_MAP_WRITE)))
    return CL_INVALID_VALUE;
  if (size == 0 || offset > m.size || size > m.size - offset) return CL_INVALID_VALUE;
  bool no_read =
      (flags & CL_MAP_READ) && (m.flags & (CL_MEM_HOST_WRITE_ONLY | CL_MEM_HOST_NO_ACCESS));
  bool no_write = (flags & kWrites) && (m.flags & (CL_MEM_HOST_READ_ONLY | CL_MEM_HOST_NO_ACCESS));
  return no_read || no_write ? CL_INVALID_OPERATION : CL_SUCCESS;
}

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
  return root.shadow.data + m.origin;
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

cl_int map(cl_command_queue queue, Mem &m, Blocking blocking, cl_map_flags flags, size_t offset,
           size_t size, Waits waits, cl_event *out, std::byte *&at) {
  std::byte *base = host_side(m);
  if (!base) return CL_MAP_FAILURE;
  at = base + offset;
  {
    // Before the read: a checkpoint in the middle of it drops shadows that nobody has mapped.
    std::lock_guard lock(m.mutex);
    m.maps.push_back({at, offset, size, flags});
  }
  cl_int r =
      flags & CL_MAP_WRITE_INVALIDATE_REGION
          ? nothing_to_move(queue, CL_COMMAND_MAP_BUFFER, waits, blocking, out)
          : read_buffer(queue, CL_COMMAND_MAP_BUFFER, m, offset, size, at, blocking, waits, out);
  if (r != CL_SUCCESS)
    erase_map(m, at);
  else
    m.keep();  // until it is unmapped
  return r;
}

}  // namespace
}  // namespace ckpt::ocl

namespace ckpt::ocl::entry {

void *clEnqueueMapBuffer(cl_command_queue queue, cl_mem mem, cl_bool blocking, cl_map_flags flags,
                         size_t offset, size_t size, cl_uint n, const cl_event *list, cl_event *out,
                         cl_int *errcode) {
  Entry entry;
  std::byte *at = nullptr;
  auto *q = object<Queue>(queue);
  cl_int r = q ? check_mem(*q, mem) : CL_INVALID_COMMAND_QUEUE;
  if (r == CL_SUCCESS) r = check_map(*object<Mem>(mem), flags, offset, size);
  if (r == CL_SUCCESS)
    r = map(queue, *object<Mem>(mem), blocking ? Blocking::Yes : Blocking::No, flags, offset, size,
            {n, list}, out, at);
  if (errcode) *errcode = r;
  return r == CL_SUCCESS ? at : nullptr;
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
    cl_int r = map.flags & kWrites ? send_write(it, *keep, map.offset, map.size, map.at)
                                   : send_nothing(it);
    erase_map(*keep, map.at);  // only now that its bytes have left the shadow
    keep->drop();              // as map() kept it
    return r;
  });
}

}  // namespace ckpt::ocl::entry
