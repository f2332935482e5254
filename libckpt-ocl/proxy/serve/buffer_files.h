// SPDX-License-Identifier: Apache-2.0
//
// Buffer files: buffers whose contents are in memory that the application maps, too. The driver's
// buffer is made over this process's mapping with CL_MEM_USE_HOST_PTR. Only for devices that work
// on such pages themselves (device/shared_pages.h).
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <unordered_map>

#include "common/base/unique_fd.h"
#include "libckpt-ocl/proxy/serve/objects.h"

namespace ckpt::ocl {

class BufferFiles {
 public:
  // Makes the driver's buffer `number` again, over `size` bytes of the file from `offset` on.
  cl_int share(Objects &objects, u64 number, u64 offset, u64 size, int file);
  // The file of a buffer; -1: it has none.
  int file(u64 number) const;
  // A part of the contents of a buffer with a file; nullptr if it has none, or is shorter.
  std::byte *contents(u64 number, u64 offset, u64 bytes) const;
  // The application has released the buffer. The driver may use its memory for longer.
  void forget(u64 number) { files_.erase(number); }

 private:
  struct File {
    UniqueFd fd;
    std::span<std::byte> contents;
  };
  std::unordered_map<u64, File> files_;
};

}  // namespace ckpt::ocl
