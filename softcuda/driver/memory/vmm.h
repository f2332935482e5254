// SPDX-License-Identifier: Apache-2.0
//
// Physical memory of cuMemCreate.
#pragma once

#include "common/base/unique_fd.h"
#include "softcuda/driver/state/process.h"

namespace ckpt::softcuda::driver {

// Whether it was made for GPUDirect RDMA.
bool is_rdma_capable(u64 handle);
// The kinds of handles that it can be exported as.
u64 handle_types(u64 handle);

// Physical memory that another process has exported, with its file.
CUresult import_physical_memory(UniqueFd fd, u64 bytes, int device,
                                CUmemGenericAllocationHandle *out);
// A descriptor of the file; none: there is no such memory, or it cannot be exported.
UniqueFd export_physical_memory(u64 handle);
// Whether memory of another process is mapped.
bool maps_imported_memory();

// For a checkpoint: copies the contents of all physical memory of this process aside and frees it;
// allocates, fills and maps it again.
Result<> save_physical_memory();
Result<> restore_physical_memory();
// In a forked child: closes the files. Takes no lock.
void leave_physical_memory_to_parent();

}  // namespace ckpt::softcuda::driver
