// SPDX-License-Identifier: Apache-2.0
//
// Costs by two sizes: the data that a program holds, and the data that is stored after compression.
// A line over the first size alone (cost_model.h) cannot fit both programs with zeros and programs
// with noise, because only the stored data is written to the storage.
//
// The sum of the squared *relative* errors is the least possible, since errors are reported
// relative to the cost (KS-4). Plain least squares would fit the largest programs alone.
#pragma once

#include <span>

#include "schedule/cost/cost_model.h"

namespace ckpt::schedule {

struct SizedCost {
  double per_megabyte = 0, per_stored_megabyte = 0, base = 0;
  double at(double megabytes, double stored_megabytes) const {
    return per_megabyte * megabytes + per_stored_megabyte * stored_megabytes + base;
  }
};

struct SizedSample {
  double megabytes = 0, stored_megabytes = 0, seconds = 0;
};

// No part is negative. Samples without a positive time are ignored.
SizedCost fit_relative(std::span<const SizedSample> samples);

// For plans, in which no cost may be too low (KS-2), over the largest size that a program will
// have: as if nothing of it could be compressed.
Line worst_case(const SizedCost &cost);

}  // namespace ckpt::schedule
