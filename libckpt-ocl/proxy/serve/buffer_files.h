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

class Pages;

class BufferFiles {
 public:
  struct Wanted {
    u64 number;        // of the buffer
    u64 offset, size;  // in its file
    u64 address;       // of the file in this process; 0: anywhere
  };
  // Makes the driver's buffer again, over its file.
  cl_int share(Objects &objects, const Wanted &wanted, int file);
  // Makes the driver's buffer `number` again, over a part of the buffer `block`, which has a file.
  cl_int share_in_block(Objects &objects, u64 number, u64 block, u64 offset, u64 size);
  // The file of a buffer; -1: it has none.
  int file(u64 number) const;
  // A part of the contents of a buffer with a file; nullptr if it has none, or is shorter.
  std::byte *contents(u64 number, u64 offset, u64 bytes) const;
  // The contents from `offset` on; empty if there are none.
  std::span<std::byte> contents_from(u64 number, u64 offset) const;
  // The application has released the buffer. The driver may use its memory for longer.
  void forget(u64 number) { files_.erase(number); }

 private:
  struct File {
    UniqueFd fd;
    std::span<std::byte> contents;
    std::shared_ptr<const Pages> pages;
  };
  std::unordered_map<u64, File> files_;
};

}  // namespace ckpt::ocl
