// SPDX-License-Identifier: Apache-2.0
//
// Physical device memory (cuMemCreate), and access to it once it is mapped. All memory that this
// library maps is made here and nowhere else, so one place decides where physical memory comes from
// and which properties it has.
#pragma once

#include <span>
#include <vector>

#include "common/base/bytes.h"
#include "libckpt-cuda/entry/driver.h"

namespace ckpt::cuda {

using Physical = CUmemGenericAllocationHandle;  // the driver's handle; 0: none
using AccessList = std::vector<CUmemAccessDesc>;

// Memory that belongs to `device`, for cuMemCreate and cuMemGetAllocationGranularity.
CUmemAllocationProp memory_of(CUdevice device);
// The same for memory that the program did not ask for by cuMemCreate.
CUmemAllocationProp memory_for_block(CUdevice device);

CUresult make_physical(u64 bytes, const CUmemAllocationProp &prop, Physical &out);
// The same in the place of memory that was given back with the name `key`, which may have returned.
CUresult make_physical_again(u64 key, u64 bytes, const CUmemAllocationProp &prop, Physical &out);
void release_physical(Physical handle);
// Memory for a block, with a handle for other processes (ipc_memory.h) where the device and the
// system give one. `key`: as above; 0: none.
CUresult make_for_block(u64 key, u64 bytes, CUdevice device, Physical &out);

// Memory that comes back from its owner (owned_memory.h). Only while no call is inside the gate.
struct KeyedPhysical {
  u64 key = 0;  // unique in this process
  u64 bytes = 0;
  Physical physical = 0;
};
void put_returned(u64 key, Physical physical);
// Releases what make_physical_again() has not taken.
void drop_returned();
// Why this program cannot share memory with other processes by cuIpc*; null: it can.
const char *reason_against_sharing();
// ckpt-run --device-owner: all physical memory can be shared with another process, where the device
// can do that.
bool is_shareable_wanted();

CUmemAccessDesc access_from(CUdevice device, bool allowed);
// Adds `change` to a list of what has been set for one range. A mapping begins without access, so
// no access need not be listed.
void change_access(AccessList &list, const CUmemAccessDesc &change);
// Applies to a range of whole mappings.
CUresult give_access(u64 base, u64 bytes, std::span<const CUmemAccessDesc> access);

}  // namespace ckpt::cuda
