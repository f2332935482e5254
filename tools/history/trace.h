// SPDX-License-Identifier: Apache-2.0
//
// Dumps and restores with their steps, in Chrome's trace event format, which chrome://tracing and
// ui.perfetto.dev show: a row for each user, and for each process that was dumped or restored.
#pragma once

#include <vector>

#include <nlohmann/json.hpp>

namespace ckpt::tools {

nlohmann::json trace_of(const std::vector<nlohmann::json> &events);

}  // namespace ckpt::tools
