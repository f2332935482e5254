// SPDX-License-Identifier: Apache-2.0
//
// How this process divides kernels into slices: ckpt-run --guest and --slice, passed in an
// environment variable.
#pragma once

#include <string>

#include "slicing/cooperation.h"

namespace ckpt::slicing {

// Set by ckpt-run --guest and --slice: what this process is to do.
inline constexpr const char *kSlicesVariable = "CKPT_SLICES";
// The file of whole_kernels.h.
inline constexpr const char *kMemoryVariable = "CKPT_WHOLE_KERNELS";

struct Settings {
  bool sliced = false;       // kernels are sliced; if not, no other member matters
  bool guest = false;        // with load tests and pauses
  u64 blocks = 0;            // the size of every slice; 0: see `share`
  double share = 0;          // the same, as a part of the launch; 0: found at run time
  double slice_ns = 0;       // the target time of a slice without --guest
  double patience_ns = 2e9;  // how long a slice may make no progress before the rest is started
  CooperationSettings cooperation;
  std::string memory_path;  // of kMemoryVariable; empty: none

  // The blocks of every slice of a launch of `all` blocks. 0: found at run time.
  u64 fixed_blocks(u64 all) const;
};

// Those of kSlicesVariable, read once.
const Settings &settings();
// Of a list such as "guest,fps=60,blocks=7", as tools/run/guest.cc writes it. Unknown words are
// ignored.
Settings parse_settings(std::string_view text);

}  // namespace ckpt::slicing
