// SPDX-License-Identifier: Apache-2.0
//
// Mapping. The application sees a shadow of the buffer or image in its own address space, or its
// own host_ptr. Mapping reads the region into the shadow; unmapping writes it back if it was mapped
// for writing. The shadow is as large as the whole object, so that overlapping maps have consistent
// addresses; only the pages that were touched cost memory.
//
// Where the shadow's pages are those of the driver's buffer (shared_memory.h), nothing is read or
// written.
#include "libckpt-ocl/client/transfer/map.h"

#include <algorithm>

#include "libckpt-ocl/client/link/arriving.h"
#include "libckpt-ocl/client/link/owed.h"
#include "libckpt-ocl/client/object/memory_flags.h"
#include "libckpt-ocl/client/transfer/image_transfer.h"
#include "libckpt-ocl/client/transfer/in_place.h"
#include "libckpt-ocl/client/transfer/shared_memory.h"

namespace ckpt::ocl {
namespace {

constexpr cl_map_flags kAllFlags = CL_MAP_READ | CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION;
constexpr cl_map_flags kWrites = CL_MAP_WRITE | CL_MAP_WRITE_INVALIDATE_REGION;

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
  if (it == m.maps.end()) return;
  m.maps.erase(it);
  stop_using_pages(m);
}

Pitches pitches(const Mem &m) { return {m.image->row_pitch, m.image->slice_pitch}; }

// No value: the map must be deferred, and may be sent to a device that keeps copies.
std::optional<cl_int> map_in_place(cl_command_queue queue, cl_command_type type, Waits waits,
                                   Blocking blocking, cl_event *out) {
  Command c(queue, type, waits);
  if (c.status() != CL_SUCCESS) return c.status();
  if (runs_at_once(c, out)) return hand_out_finished(c, out);
  if (!c.can_send_now()) return {};
  Ref<Event> done(blocking == Blocking::Yes ? &c.event() : nullptr);
  cl_int r = c.run_now(out, send_marker);
  return r == CL_SUCCESS && done ? std::min(0, wait(*done)) : r;
}

cl_int read_mapped(cl_command_queue queue, cl_command_type type, Mem &m, const Mem::Map &map,
                   Blocking blocking, Waits waits, cl_event *out) {
  if (shares_pages(m)) {
    if (cl_int r = wait_for_contents(m); r != CL_SUCCESS) return r;
    if (map.flags & kWrites) will_be_written(m);  // from now on without a command
    if (auto r = map_in_place(queue, type, waits, blocking, out)) return *r;
  }
  if (map.flags & CL_MAP_WRITE_INVALIDATE_REGION)
    return enqueue_marker(queue, type, waits, blocking, out);
  if (map.box) return read_box(queue, type, m, *map.box, pitches(m), map.at, blocking, waits, out);
  return read_buffer(queue, type, m, map.offset, map.size, map.at, blocking, waits, out);
}

cl_int write_mapped(Command &c, Mem &m, const Mem::Map &map) {
  if (!(map.flags & kWrites)) return send_marker(c);
  if (shares_pages(m)) {
    will_be_written(m);
    return send_marker(c);
  }
  if (map.box) return send_box(c, m, *map.box, pitches(m), map.at);
  return send_write(c, m, map.offset, map.size, map.at);
}

}  // namespace

cl_int enqueue_marker(cl_command_queue queue, cl_command_type type, Waits waits, Blocking blocking,
                      cl_event *out) {
  Command c(queue, type, waits);
  if (c.status() != CL_SUCCESS) return c.status();
  Ref<Event> done(blocking == Blocking::Yes ? &c.event() : nullptr);
  cl_int r = c.run(out, Trip::OneWay, send_marker);
  return r == CL_SUCCESS && done ? std::min(0, wait(*done)) : r;
}

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

bool are_map_flags_valid(cl_map_flags flags) {
  if (flags & ~kAllFlags) return false;
  return !(flags & CL_MAP_WRITE_INVALIDATE_REGION) || !(flags & (CL_MAP_READ | CL_MAP_WRITE));
}

cl_int check_map_flags(const Mem &m, cl_map_flags flags) {
  if (!are_map_flags_valid(flags)) return CL_INVALID_VALUE;
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
    // Before the read, because a checkpoint in the middle of it discards shadows without a map.
    std::lock_guard lock(m.mutex);
    m.maps.push_back(map);
    use_pages(m);
  }
  cl_int r = read_mapped(queue, type, m, map, blocking, waits, out);
  if (r != CL_SUCCESS)
    erase_map(m, map.at);
  else
    m.keep();  // until unmap_region()
  return r;
}

cl_int unmap_region(cl_command_queue queue, Mem &m, void *at, Waits waits, cl_event *out) {
  Command c(queue, CL_COMMAND_UNMAP_MEM_OBJECT, waits);
  if (c.status() != CL_SUCCESS) return c.status();
  std::optional<Mem::Map> map = find_map(m, at);
  if (!map) return CL_INVALID_VALUE;
  if (shares_pages(m) && runs_at_once(c, out)) {
    if (map->flags & kWrites) will_be_written(m);
    edges_to_files();
    cl_int r = hand_out_finished(c, out);
    erase_map(m, map->at);
    m.drop();
    return r;
  }
  return c.run(out, Trip::OneWay, [map = *map, keep = Ref<Mem>(&m)](Command &it) {
    cl_int r = write_mapped(it, *keep, map);
    erase_map(*keep, map.at);  // not earlier: a checkpoint discards shadows without a map
    keep->drop();              // the reference that map_region() took
    return r;
  });
}

}  // namespace ckpt::ocl
