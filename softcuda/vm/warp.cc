// SPDX-License-Identifier: Apache-2.0
#include "softcuda/vm/warp.h"

#include "common/base/result.h"

namespace ckpt::softcuda::vm {

void Grid::fail(FaultKind kind, std::string text) {
  std::lock_guard lock(fault_mutex);
  if (fault.kind == FaultKind::None) fault = {kind, std::move(text)};
  stop = true;
}

void Warp::fail(FaultKind kind, const Op &op, std::string why) {
  failed = true;
  grid->fail(kind, fmt::format("{}: PTX line {}: {}", frame->code->name, op.line, why));
}

}  // namespace ckpt::softcuda::vm
