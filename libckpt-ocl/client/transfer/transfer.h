// SPDX-License-Identifier: Apache-2.0
//
// Bytes between host memory and buffers, through staging. A long transfer is cut into pieces which
// the proxy and this side work on at the same time.
#pragma once

#include "libckpt-ocl/client/command/command.h"

namespace ckpt::ocl {

// A region of a buffer and of host memory, in rows and slices; a plain transfer is one row.
struct Rect {
  size_t region[3];         // bytes of a row, rows, slices
  size_t buffer_origin[3];  // bytes, rows, slices
  size_t buffer_row, buffer_slice;
  size_t host_row, host_slice;  // pitches; the host pointer is that of the region itself
};

enum class Blocking : bool { No, Yes };

// Reads into / writes from `host`. The arguments are checked already.
cl_int read_buffer(cl_command_queue queue, cl_command_type type, Mem &mem, size_t offset,
                   size_t size, void *host, Blocking blocking, Waits waits, cl_event *out);
cl_int write_buffer(cl_command_queue queue, cl_command_type type, Mem &mem, size_t offset,
                    size_t size, const void *host, Blocking blocking, Waits waits, cl_event *out);
// Of a buffer or an image; an image's x counts in bytes here too.
cl_int read_rect(cl_command_queue queue, cl_command_type type, Mem &mem, const Rect &rect,
                 void *host, Blocking blocking, Waits waits, cl_event *out);
cl_int write_rect(cl_command_queue queue, cl_command_type type, Mem &mem, const Rect &rect,
                  const void *host, Blocking blocking, Waits waits, cl_event *out);
// Writes for a command that has been checked and now runs (Command::run).
cl_int send_write(Command &c, Mem &mem, const Rect &rect, const std::byte *host);
cl_int send_write(Command &c, Mem &mem, size_t offset, size_t size, const std::byte *host);

// Puts the contents of a new buffer in place (CL_MEM_COPY_HOST_PTR), before any command can see it.
cl_int fill_new_buffer(Mem &mem, const void *host);

// A command is over (called with the link's completions): a read's bytes go to their place.
void copy_read_to_host(Event &e);
void stamp(Event &e, const Completion &c);

}  // namespace ckpt::ocl
