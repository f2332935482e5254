// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "softcuda/driver/state/objects.h"

namespace ckpt::softcuda::driver {

void destroy_context(Context *c);
// Frees all that a context has and leaves it inactive.
void empty_context(Context *c);

}  // namespace ckpt::softcuda::driver
