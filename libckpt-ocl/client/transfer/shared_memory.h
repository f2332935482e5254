// SPDX-License-Identifier: Apache-2.0
//
// Buffers whose contents application and proxy both map: a *buffer file* (memfd_create(2))
//
//   application        shadow of the buffer ──┐
//                                             ├── buffer file
//   proxy   driver's buffer (USE_HOST_PTR) ───┘
//
// On a device that works on such pages itself (proxy/device/shared_pages.h) a map then copies
// nothing, and a read or write is one copy, here (in_place.h). Other devices, devices of other
// nodes, and small buffers keep a copy of their own, and bytes pass through staging.
//
// The program's own memory (CL_MEM_USE_HOST_PTR) becomes a buffer file, too: what a kernel writes
// is there when it has finished, as natively on such a device, and kernels see what the program
// writes. The pages that lie wholly in the buffer are replaced at the same addresses, by pages with
// the same contents; while clCreateBuffer runs they are the call's own, so nothing can write to
// them. The ends are copied (edges.h). When the buffer has been destroyed, the pages are private
// again.
//
// Where the file is. The proxy holds its descriptor: a program may have many buffers, and few
// descriptors. During a checkpoint there are two cases.
//
//   no map          The contents are saved as those of any buffer (mem-N). detach() replaces the
//                   application's pages by empty ones, attach_again() maps the file again. A copy
//                   makes a new file, if its device shares pages, and load() fills it.
//   a map, or host  The program may write to the pages at any moment until CRIU stops it, so that
//   memory of its   nothing but CRIU can take them: they stay mapped, CRIU saves the file as the
//   own             program's memory, and the image has no region for the buffer. The application
//                   holds the descriptor from detach() to resume(). If the new
//                   device keeps copies, attach() writes the contents there; maps stay valid.
//
// Members are changed only while a buffer is being made, or with the gate closed.
#pragma once

#include <unordered_set>

#include "libckpt-ocl/client/object/objects.h"
#include "libckpt-ocl/client/transfer/edges.h"
#include "libckpt-ocl/client/transfer/shared_ranges.h"

namespace ckpt::ocl {

struct SharedMemory {
  // `at`: the buffer's offset in the file.
  SharedMemory(SharedRange *r, size_t at);
  SharedMemory(const SharedMemory &) = delete;
  ~SharedMemory();

  SharedRange *const range;
  const size_t offset;
  bool own = false;  // the program's own memory
  std::vector<std::unique_ptr<Edge>> edges;
  bool only_copy = false;  // of the last save: the image has no region for them
  bool in_proxy = false;   // the pages are those of the driver's buffer
  bool away = false;       // replaced by empty ones, from detach() on
};

// A buffer file; not, if the program has too many, or may not have one of this size.
Result<UniqueFd> make_buffer_file(size_t bytes);
// Replaces the range's pages by those of a file, from `offset` on.
bool map_over(const SharedRange &range, int file, size_t offset = 0);

// Whether what the program sees at the object's addresses is the driver's buffer itself.
inline bool shares_pages(const Mem &m) {
  const SharedMemory *s = const_cast<Mem &>(m).root()->shared.get();
  return s && s->in_proxy && !s->away;
}

// A buffer was created, and no command uses it: shares its memory, if that is possible. With
// CL_MEM_USE_HOST_PTR it then has the contents. An error only where it must be: over shared virtual
// memory.
cl_int share_memory(Mem &m);
// The program maps a part of the object, or no longer uses that map.
void use_pages(Mem &m);
void stop_using_pages(Mem &m);
// For save(): notes whether CRIU saves the contents, so that the image needs no region for them.
bool saved_with_pages(Mem &m);

// For detach(): before the proxy is parked, and after that.
Result<> take_buffer_files();
void leave_buffer_files();
// For attach_again().
Result<> map_buffer_files();
// The roots of which a part is mapped. With the gate closed.
std::unordered_set<const Mem *> mapped_roots();
// For attach(): the buffer was made again, and is empty. `mapped`: mapped_roots().
Result<> share_memory_again(Mem &m, const std::unordered_set<const Mem *> &mapped);
// For resume(). Memory of the program's own that the new device does not share is given up only
// here, because a move that fails goes back to a device that shares it.
void close_buffer_files();

}  // namespace ckpt::ocl
