// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "common/base/copy_facts.h"

namespace ckpt::agent {

// What ckpt-start has told this process about itself, in its session's folder. Null: it is no copy.
// The object is never freed, so that its strings stay valid.
const CopyFacts *this_copy();

}  // namespace ckpt::agent
