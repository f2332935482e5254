// SPDX-License-Identifier: Apache-2.0
//
// Virtual memory management: addresses that the program reserves, physical memory that it makes,
// and which memory is mapped where. Addresses are cut from the arena (memory.h), so reserving them
// costs no call. Physical memory has a number, as other objects have, and lives on the server as
// long as the program has a handle of it or has mapped it.
//
// Example: memory A is mapped at two addresses, and its handle was released. A move makes A again,
// maps it at both, and carries its contents once (contents.cc).
#pragma once

#include <map>
#include <mutex>

#include "common/base/result.h"
#include "remote/cuda/client/objects/client.h"

namespace ckpt::remote::cuda {

class VirtualMemory {
 public:
  CUresult reserve(u64 bytes, u64 align, u64 wanted, u64 &base);
  // CUDA_ERROR_INVALID_VALUE: it is no whole reservation, or something is mapped there.
  CUresult free(u64 base, u64 bytes);

  CUresult make(u64 bytes, const CUmemAllocationProp &prop, u64 &number);
  CUresult release(u64 number);
  // One more handle of the memory that is mapped there.
  CUresult retain_at(u64 address, u64 &number);
  CUresult properties(u64 number, CUmemAllocationProp &out) const;

  CUresult map(u64 base, u64 bytes, u64 number);
  // The range is a sequence of whole mappings.
  CUresult unmap(u64 base, u64 bytes);
  CUresult set_access(u64 base, u64 bytes, CUmemAccess_flags flags);
  // Of the memory's own device. No value: nothing is mapped there.
  std::optional<CUmemAccess_flags> access_at(u64 address) const;
  // The devices of the memory that is mapped in the range, without doublets.
  std::vector<CUdevice> devices_in(u64 base, u64 bytes) const;

  struct Live {
    u64 number, bytes;
    CUdevice device;
    u64 address;  // where all of it can be read and written; 0: nowhere
  };
  std::vector<Live> live() const;
  // On another server, whose arena is reserved.
  Result<> make_again();

 private:
  struct Physical {
    u64 bytes;
    CUmemAllocationProp prop;
    u64 handles = 1, mappings = 0;
  };
  struct Mapping {
    u64 bytes, number;
    CUmemAccess_flags access;
  };
  using Mappings = std::map<u64, Mapping>;
  bool is_reserved(u64 base, u64 bytes) const;
  bool is_mapped(u64 base, u64 bytes) const;
  // The whole mappings that the range consists of; empty: it does not.
  std::vector<Mappings::iterator> whole_mappings(u64 base, u64 bytes);
  CUresult unmap_there(u64 base, u64 bytes, const std::vector<Mappings::iterator> &all);
  Mappings::const_iterator mapping_at(u64 address) const;
  void end_if_unused(u64 number);

  mutable std::mutex mutex_;
  std::map<u64, u64> reserved_;
  std::map<u64, Physical> physical_;
  Mappings mappings_;
};

VirtualMemory &virtual_memory();

}  // namespace ckpt::remote::cuda
