// SPDX-License-Identifier: Apache-2.0
//
// Transfers between host memory and buffers or images, through staging. A long transfer is cut into
// pieces, so that client and proxy copy at the same time.
#pragma once

#include "libckpt-ocl/client/command/command.h"

namespace ckpt::ocl {

// A region of a buffer and of host memory, in rows and slices; a contiguous transfer is one row.
struct Rect {
  size_t region[3];         // bytes of a row, rows, slices
  size_t buffer_origin[3];  // bytes, rows, slices
  size_t buffer_row, buffer_slice;
  size_t host_row, host_slice;  // pitches; the host pointer points to the region itself
};

enum class Blocking : bool { No, Yes };

// Reads into or writes from `host`. The caller has checked the arguments.
cl_int read_buffer(cl_command_queue queue, cl_command_type type, Mem &mem, size_t offset,
                   size_t size, void *host, Blocking blocking, Waits waits, cl_event *out);
cl_int write_buffer(cl_command_queue queue, cl_command_type type, Mem &mem, size_t offset,
                    size_t size, const void *host, Blocking blocking, Waits waits, cl_event *out);
// Of a buffer or an image; the x of an image counts bytes here, too.
cl_int read_rect(cl_command_queue queue, cl_command_type type, Mem &mem, const Rect &rect,
                 void *host, Blocking blocking, Waits waits, cl_event *out);
cl_int write_rect(cl_command_queue queue, cl_command_type type, Mem &mem, const Rect &rect,
                  const void *host, Blocking blocking, Waits waits, cl_event *out);
// The part of a write that Command::run() calls.
cl_int send_write(Command &c, Mem &mem, const Rect &rect, const std::byte *host);
cl_int send_write(Command &c, Mem &mem, size_t offset, size_t size, const std::byte *host);

// Writes the initial contents of a memory object (CL_MEM_COPY_HOST_PTR) before any command can use
// it. `copy(at, bytes, to)` puts `bytes` bytes of the contents, from offset `at`, into staging.
using CopyContents = std::function<void(size_t at, size_t bytes, std::byte *to)>;
cl_int write_initial_contents(const Mem &mem, const CopyContents &copy);
// Waits for pending reads into this host memory.
void wait_for_pending_reads(const void *host, size_t bytes);

// A command has finished: copies the bytes of a read from staging to their place.
void copy_read_to_host(Event &e);

}  // namespace ckpt::ocl
