// SPDX-License-Identifier: Apache-2.0
//
// ckpt-dump --template: what makes an image one from which copies can run at the same time.
#pragma once

#include <string>
#include <vector>

#include "common/base/result.h"
#include "tools/criu/criu_files.h"
#include "tools/manifest/manifest.h"
#include "tools/reasons.h"

namespace ckpt::tools {

// `tcp_close`: its copies find TCP connections closed.
void mark_as_template(manifest::Manifest &manifest, bool tcp_close);
// What no copy of a program that still runs can have.
Result<> check_running_template(manifest::Manifest running, bool tcp_close, Reasons &reasons);
// What a callback could have closed, and what only one copy can have.
Result<> check_recorded_template(const manifest::Manifest &recorded, const FactFiles &facts,
                                 std::vector<std::string> &remarks);

}  // namespace ckpt::tools
