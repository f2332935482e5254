// SPDX-License-Identifier: Apache-2.0
//
// An error as a message: {str what, str hint}.
#pragma once

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::remote {

Bytes body_of(const Error &error);
Error read_error(Reader r);

}  // namespace ckpt::remote
