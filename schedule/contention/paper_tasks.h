// SPDX-License-Identifier: Apache-2.0
//
// The tasks that HC section 4.6 measured, for comparisons: a Phenom X4 9850 with four GeForce 8800
// GTS 512. The defaults of Bandwidths are those of this machine.
#pragma once

#include <span>
#include <string_view>

#include "schedule/contention/node.h"

namespace ckpt::schedule {

// Eight CPU tasks (NPB, class W) and seven GPU tasks.
std::span<const ContentionTask> paper_tasks();
// `name` is that of one of them.
const ContentionTask &paper_task(std::string_view name);

}  // namespace ckpt::schedule
