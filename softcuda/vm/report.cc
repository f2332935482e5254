// SPDX-License-Identifier: Apache-2.0
#include "softcuda/vm/report.h"

#include "common/base/result.h"

namespace ckpt::softcuda::vm {

void report_address(Warp &w, const Op &o, u32 lane, u64 address, u32 bytes, bool write) {
  bool misaligned = address % bytes != 0;
  w.fail(misaligned ? FaultKind::MisalignedAddress : FaultKind::IllegalAddress, o,
         fmt::format("{} {} of {} bytes at {:#x} by thread ({},{},{}) of block ({},{},{})",
                     misaligned ? "misaligned" : "invalid", write ? "write" : "read", bytes,
                     address, w.tid[0][lane], w.tid[1][lane], w.tid[2][lane], w.block->index.x,
                     w.block->index.y, w.block->index.z));
}

const Texture *texture_of(Warp &w, const Op &o, u64 handle) {
  const Texture *t = texture_at(handle);
  if (t == nullptr)
    w.fail(FaultKind::IllegalAddress, o,
           fmt::format("{:#x} is not the handle of a texture or surface", handle));
  return t;
}

void report_outside(Warp &w, const Op &o, const i32 *c) {
  w.fail(FaultKind::IllegalAddress, o,
         fmt::format("the coordinates ({}, {}, {}) are outside of the surface", c[0], c[1], c[2]));
}

}  // namespace ckpt::softcuda::vm
