// SPDX-License-Identifier: Apache-2.0
#include "storage/format/pipe_format.h"

namespace ckpt::storage {

Bytes encode_pipe_header() {
  Writer w;
  w.raw(kPipeMagic.data(), kPipeMagic.size()).put(kFormatVersion).put(u32{0});
  return w.take();
}

}  // namespace ckpt::storage
