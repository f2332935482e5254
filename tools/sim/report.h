// SPDX-License-Identifier: Apache-2.0
//
// The results of a simulation as a table, as JSON and as pictures.
#pragma once

#include <nlohmann/json.hpp>

#include "schedule/simulate/simulation.h"

namespace ckpt::tools {

// Means over all jobs, in seconds.
struct Means {
  double turnaround = 0, execution = 0, migration = 0, wait_a = 0, wait_b = 0;
  double moves = 0;
};

Means means_of(const schedule::Workload &w, const schedule::Outcome &o);

// One policy at one load.
struct Run {
  schedule::PolicyName policy;
  double load = 0;
  size_t jobs = 0, impossible = 0, left_out = 0;
  Means means;
  double to_mct = 0;  // turnaround divided by that of MCT in the same runs; 0 if MCT was not run
};

std::string table_of(const std::vector<Run> &runs, bool with_load);
nlohmann::json json_of(const std::vector<Run> &runs, bool with_load);

// Nodes of each class from top to bottom, time from left to right.
// Comma-separated values, a line for each job; times in seconds since the first submission.
std::string outcome_header();
std::string outcome_lines(const schedule::Workload &w, const Run &run, const schedule::Outcome &o);

std::string gantt_svg(const schedule::Workload &w,
                      const std::vector<schedule::ResourceClass> &classes,
                      const schedule::Outcome &o, const std::string &title);
// Turnaround relative to MCT over the load, one line for each policy.
std::string sweep_svg(const std::vector<Run> &runs);

}  // namespace ckpt::tools
