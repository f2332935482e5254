// SPDX-License-Identifier: Apache-2.0
//
// Which programs get an auditing library (rtld-audit(7)), by which the loader finds ckpt's
// libcuda.so.1 whatever path or folder a program names. The others find it by LD_LIBRARY_PATH. The
// auditor is not for all: it takes the room for static TLS that libraries like jemalloc and
// ThreadSanitizer need, and more room is taken from the stack of each thread.
#pragma once

#include <string>
#include <vector>

#include "tools/device/environment.h"

namespace ckpt::tools {

// Why a program may reach another driver than ckpt's: by its executable, a file or a shell command
// among its words. Empty: nothing points to that.
std::string why_to_audit(const std::vector<std::string> &program,
                         const ProgramEnvironment &environment);

// The auditor, and room for libraries that are loaded beside it.
void add_auditor(ProgramEnvironment &environment);

// GLIBC_TUNABLES with at least this many bytes for static TLS, which keeps the rest of `tunables`.
std::string with_static_tls(const std::string &tunables, unsigned long bytes);

}  // namespace ckpt::tools
