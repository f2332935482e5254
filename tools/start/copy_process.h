// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>

#include <nlohmann/json.hpp>

#include "tools/restore/copy.h"
#include "tools/start/start.h"

namespace ckpt::tools {

// The main function of a copy's keeper, in a forked child with one thread: enters the copy's
// namespaces, restores the program there and serves it until it ends. Returns as ckpt-restore does.
// `running` is called once the program has its devices and runs, with what a report says of it. If
// `starter`, the parent process, ends before that, the copy is ended.
Result<int> run_copy(pid_t starter, Copy copy, const StartOptions &o, RestorePlan &plan,
                     const std::function<void(const nlohmann::json &)> &running);

}  // namespace ckpt::tools
