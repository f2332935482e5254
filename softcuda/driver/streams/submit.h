// SPDX-License-Identifier: Apache-2.0
//
// How copies and fills are submitted to a stream.
#pragma once

#include "softcuda/driver/work/transfer.h"

namespace ckpt::softcuda::driver {

// Submits a copy or fill to a stream, or adds it to the graph that the stream records. Pageable
// memory is read and written before this returns (CUDA driver API, "API synchronization behavior").
//
// `peer`: a copy between two contexts that is serialized with all work of both devices and of the
// current one (cuMemcpyPeer).
CUresult submit(Context *c, CUstream stream, Box b, bool wait, bool peer = false);
CUresult submit(Context *c, CUstream stream, const Fill &f, bool wait);

}  // namespace ckpt::softcuda::driver
