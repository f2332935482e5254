// SPDX-License-Identifier: Apache-2.0
//
// Addresses and contexts to copy the program's own physical memory (virtual_memory.h) with. Memory
// that is mapped nowhere, or that the device may only read, is mapped once more for that time; a
// device in which no context lives gets one.
#pragma once

#include "common/base/result.h"
#include "remote/cuda/client/memory/virtual_memory.h"

namespace ckpt::remote::cuda {

class CopyWindows {
 public:
  CopyWindows() = default;
  ~CopyWindows();
  CopyWindows(const CopyWindows &) = delete;
  CopyWindows &operator=(const CopyWindows &) = delete;

  Result<> open();
  struct Window {
    u64 number, bytes, address, context;
  };
  const std::vector<Window> &all() const { return all_; }

 private:
  Result<u64> context_on(CUdevice device);
  Result<u64> map(const VirtualMemory::Live &m);

  std::vector<Window> all_;
  struct Mapped {
    u64 bytes;
    CUdevice device;
  };
  std::map<u64, Mapped> mapped_;    // by address
  std::vector<CUdevice> contexts_;  // that were made for this
};

}  // namespace ckpt::remote::cuda
