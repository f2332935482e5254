// SPDX-License-Identifier: Apache-2.0
//
// What the replay of an experiment is about: the node, and what each program does there. It is read
// from text that bench/mobile/replay writes, a line for each:
//
//   node GPUS BYTES CONTEXT-BYTES COPY-BYTES/S SWITCH-S CROWD MAPPED
//   set NAME VALUE                                   a setting of the Manager (read_setting())
//   program NAME WORKLOAD EXCLUSIVE VARIABLES AHEAD STEPS ALLOCATIONS BEFORE STEP AFTER
//
// The last four are lists separated by commas, or "-". ALLOCATIONS are bytes. The others are
// operations: k0.5 a kernel of 0.5 s, m0.5 one on mapped memory, c0.5:1e9 a copy of 0.5 s and 1e9
// bytes, h0.5 work of the host. AHEAD: the steps that are submitted before the host waits.
#pragma once

#include <istream>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "manager/policy/settings.h"

namespace ckpt::replay {

struct Operation {
  enum class On : u8 { Kernels, Mapped, Bus, Host } on = On::Host;
  double seconds = 0;
  u64 bytes = 0;  // copied
};

struct Script {
  std::string name;
  u64 workload = 0;
  bool exclusive = false;
  u64 variables = 0;
  u32 ahead = 1;
  u32 steps = 0;
  std::vector<u64> allocations;
  std::vector<Operation> before, step, after;
};

struct Hardware {
  u32 gpus = 1;
  u64 bytes = 0, context = 0;
  double copy = 1, switch_cost = 0, crowd = 0, mapped = 0;
};

struct Experiment {
  Hardware node;
  manager::Settings settings;
  std::vector<Script> programs;
};

Result<Experiment> read_experiment(std::istream &in);

}  // namespace ckpt::replay
