// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ckpt {

// The number of cores that this process may use (its CPU affinity); at least 1.
unsigned usable_cores();

}  // namespace ckpt
