// SPDX-License-Identifier: Apache-2.0
#include "tools/session/shared_events.h"

namespace ckpt::tools {

Result<> SharedEvents::make_board() {
  CKPT_TRY(UniqueFd memory, EventBoard::make());
  CKPT_TRY(board_, EventBoard::map(memory.get()));
  memory_ = std::move(memory);
  return {};
}

Result<int> SharedEvents::join(u64 token, pid_t pid) {
  if (!board_) CKPT_CHECK(make_board());
  CKPT_CHECK(users_.join(token, pid));
  return memory_.get();
}

}  // namespace ckpt::tools
