// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ckpt {

// As many threads as this process may use cores; at least one.
unsigned usable_cores();

}  // namespace ckpt
