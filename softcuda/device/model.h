// SPDX-License-Identifier: Apache-2.0
//
// The modelled device: the rates of its engines, and its power (docs/SOFTCUDA.md, "The device
// clock"). The file that CKPT_SOFTCUDA_MODEL names.
#pragma once

#include <optional>
#include <string>

#include "common/base/result.h"

namespace ckpt::softcuda {

// Rates are per second; a rate of 0 means that the work takes no time.
struct Model {
  double compute = 0;      // PTX instructions of single threads
  double memory = 0;       // bytes between kernels, or copies on the device, and device memory
  double copy = 0;         // bytes of memcpy over the bus
  double launch = 0;       // seconds added to each kernel and each copy
  double switch_cost = 0;  // seconds added to a kernel that follows one of another process
  double mapped = 0;       // fraction of its time for which a kernel on pinned memory uses the bus
  double crowd = 0;        // fraction added to time on the bus that follows another process
  // Watts: always, and added while a kernel runs and while the bus is used.
  double idle = 0, active = 0, copying = 0;

  bool has_power() const { return idle + active + copying > 0; }
};

// Reads a file of lines such as "compute 1e9"; '#' begins a comment. The errors name the line.
Result<Model> read_model(const std::string &path);
// The one of CKPT_SOFTCUDA_MODEL; no value: there is none.
Result<std::optional<Model>> model_of_environment();

}  // namespace ckpt::softcuda
