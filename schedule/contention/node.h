// SPDX-License-Identifier: Apache-2.0
//
// The properties of a node and of a task in the contention model (HC, docs/PAPERS.md). All figures
// of a task are from a run without neighbours on that node. Nothing here is measured:
// `ckpt-node-bench` measures a node's figures, and counters measure a task's.
#pragma once

#include <array>
#include <cstddef>
#include <string>

namespace ckpt::schedule {

// Bandwidths in GB/s (10^9 bytes).
struct Bandwidths {
  double core = 5.2;     // between one core and the memory, both directions together
  double cpu = 7.8;      // between all cores and the memory, both directions together
  double memory = 10.5;  // of the memory itself, with copies in both directions
  double link = 6.0;     // to all GPUs together, one direction
  double copy = 2.6;     // of one copy of pageable memory to a GPU that has no neighbour
};

struct ContentionNode {
  Bandwidths bandwidths;
  unsigned cores = 4;
  unsigned gpus = 4;
};

struct ContentionTask {
  std::string name;
  bool uses_gpu = false;  // a GPU task needs one GPU and one core, a CPU task one core
  double seconds = 0;
  double memory_gb = 0;          // between cores and memory, without what copies cause
  double host_to_device_gb = 0;  // copied
  double device_to_host_gb = 0;
};

enum class Stage { Memory, HostToDevice, DeviceToHost, Other };
inline constexpr size_t kStages = 4;

// The share of a task's time that each stage takes; they add up to 1.
struct StageShares {
  std::array<double, kStages> of{};
  // The stages would take longer than the task does, so they were scaled down: the task's figures
  // or the node's bandwidths are wrong, or the task overlaps its copies.
  bool scaled = false;

  double operator[](Stage s) const { return of[static_cast<size_t>(s)]; }
};

StageShares shares_of(const ContentionTask &task, const Bandwidths &node);

}  // namespace ckpt::schedule
