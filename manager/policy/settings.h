// SPDX-License-Identifier: Apache-2.0
//
// The settings of the Manager's decisions. docs/man/ckptd.8.scd explains each of them for users.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "common/base/bytes.h"
#include "manager/policy/time.h"
#include "schedule/contention/node.h"

namespace ckpt::manager {

inline constexpr u64 kMiB = 1u << 20;

// The program that is evicted when memory runs short.
enum class Victim : u8 {
  Requester,  // the program that asks for more, as in the paper (MC-12)
  Cheapest,   // lower priority, then not nearly finished, then fewer bytes, then latest arrival
};

// Which waiting program joins the programs on a GPU.
enum class PlacementMode : u8 {
  FirstFit,      // the next that fits
  Interference,  // the next that is not known to lose beside them (interference.h)
  Demand,        // the one that demands what they leave idle (load.h)
};

struct Settings {
  u32 programs_per_gpu = 4;       // MC-18; this times the number of GPUs hold an assignment
  u32 contextless_per_gpu = 4;    // MC-19
  u64 context_bytes = 64 * kMiB;  // assumed cost of a context, until one was measured (MC-11)
  u64 credit_bytes = 0;           // memory that a program may allocate without asking; 0: none
  u64 program_bytes = 0;          // limit of one program; 0: none
  u64 host_bytes = ~u64{0};       // host memory for the contents of evicted programs
  std::string disk_folder;        // for contents beyond that; empty: none
  u64 disk_bytes = 0;
  Victim victim = Victim::Requester;
  PlacementMode placement = PlacementMode::FirstFit;
  // The node's bandwidths. With them, Demand judges copies by the contention model (links.h).
  std::optional<schedule::Bandwidths> links;
  Time starvation_limit = std::chrono::seconds(30);   // a longer wait may make a program starve
  Time min_residency{std::chrono::seconds(1)};        // no eviction for another program before it
  Time eviction_timeout = std::chrono::seconds(60);   // for a program to leave its GPU
  Time retry_delay = std::chrono::milliseconds(500);  // after a failed eviction or resumption
  u32 max_refusals = 3;   // a program that could not be suspended this often is not asked again
  Time startup_delay{0};  // nothing is granted before programs of an earlier Manager could join
  Time progress_interval = std::chrono::seconds(1);
  Time pairing_limit = std::chrono::seconds(300);  // the starving program then shares with any
  Time rebalance_after = std::chrono::seconds(10);
  Time time_slice{0};  // turns of programs that do not fit together; 0: none
};

}  // namespace ckpt::manager
