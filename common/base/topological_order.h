// SPDX-License-Identifier: Apache-2.0
//
// An order of items that depend on each other, such as the nodes of a graph of work.
#pragma once

#include <optional>
#include <vector>

#include "common/base/bytes.h"

namespace ckpt {

// `after[i]` lists the items that item i depends on, as numbers below after.size(). Each item comes
// behind these, otherwise in ascending order. No value: there is a cycle. Takes time linear in
// items and dependencies.
std::optional<std::vector<u32>> topological_order(const std::vector<std::vector<u32>> &after);

}  // namespace ckpt
