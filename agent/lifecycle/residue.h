// SPDX-License-Identifier: Apache-2.0
//
// What may not be in the process when CRIU looks, and CRIU would not notice, or notice too late
// (facts: a shared ring comes back as a private copy): memfds of ours, sockets into the session's
// folder, device drivers.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "common/base/result.h"

namespace ckpt::agent {

// Whether somebody answers for a driver's file that is mapped.
using AnswersFor = std::function<bool(std::string_view file)>;

// Paths of device drivers that are mapped and that nobody answers for: a program that uses one
// without us.
Result<std::vector<std::string>> mapped_drivers(const AnswersFor &answered);

// Everything that detach() should have taken away, in words. `expected` are descriptors to pass
// over.
Result<std::vector<std::string>> residue(std::span<const int> expected,
                                         const std::string &session_folder,
                                         const AnswersFor &answered);

}  // namespace ckpt::agent
