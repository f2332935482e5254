// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace ckpt::remote::cuda {

// Why an entry is refused that has no line in cuda.api.
const char *reason_against(const char *symbol);

}  // namespace ckpt::remote::cuda
