// SPDX-License-Identifier: Apache-2.0
//
// Kernels that run whole because they were found to wait for blocks with higher numbers (a
// hand-made barrier). They are remembered in a file of the user's, by a hash of their code, and one
// program's finding serves all later ones. Its lines: a hash of 16 hexadecimal digits, and the
// name.
#pragma once

#include <string_view>

#include "common/base/bytes.h"

namespace ckpt::slicing {

bool is_remembered_whole(u64 hash);
// In memory and, if there is a file, in it. A failure is only logged.
void remember_whole(u64 hash, std::string_view name);

}  // namespace ckpt::slicing
