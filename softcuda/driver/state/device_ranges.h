// SPDX-License-Identifier: Apache-2.0
//
// Strict: mappings and descriptors of the device in the process, as NVIDIA's driver has them of
// /dev/nvidia*. A forked child inherits both (seen with driver 580.159.04). Checkpoint closes the
// descriptors and unmaps the mappings, and Restore maps them at the same addresses with MAP_FIXED,
// whatever lies there (google/gvisor#14776). Newer drivers leave mappings without access in their
// place (google/gvisor#14008): CKPT_SOFTCUDA_PLACEHOLDERS.
#pragma once

namespace ckpt::softcuda::driver {

void map_device_ranges();  // once, at cuInit
void unmap_device_ranges();
bool map_device_ranges_again();

}  // namespace ckpt::softcuda::driver
