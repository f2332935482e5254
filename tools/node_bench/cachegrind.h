// SPDX-License-Identifier: Apache-2.0
//
// Last-level cache misses by simulation, for nodes whose processors do not count them: a run of the
// program in valgrind's cachegrind, which takes 20 to 100 times as long.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "common/base/bytes.h"
#include "common/base/result.h"

namespace ckpt::tools {

// False, with the reason, if valgrind cannot be run.
Result<> find_cachegrind();

// Misses of a program and of the programs that it starts. `cache_bytes`: of the last-level cache,
// rounded down to a power of two; 0: as large as this machine's. The program's standard output is
// our standard error.
Result<u64> simulated_misses(const std::vector<std::string> &program, u64 cache_bytes);

// Misses in a file that cachegrind has written; see "Cachegrind's file format" in its manual.
Result<u64> misses_in(std::string_view file);

}  // namespace ckpt::tools
