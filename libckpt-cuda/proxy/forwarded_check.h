// SPDX-License-Identifier: Apache-2.0
//
// Whether these devices can take over a process that calls a server (remote/cuda), which makes its
// objects again on any chip for which there is code.
#pragma once

#include "libckpt-cuda/proxy/device_check.h"

namespace ckpt::cuda {

// Whether these are the requirements of such a process
// (remote/cuda/client/lifecycle/requirements.h).
bool is_forwarded(const nlohmann::json &requirements);

// As check_devices(). The process sees the chosen devices in their order, or all that are offered;
// each takes the place of the one with its number. `software`: they execute nothing but PTX.
DeviceCheck check_forwarded(const nlohmann::json &requirements,
                            const std::vector<RealDevice> &offered,
                            const std::vector<std::string> &chosen, bool software);

// Whether code for the target ("sm_90a", "compute_80") runs on a device of the compute capability
// `capability` (90 is 9.0).
bool runs_on(std::string_view target, int capability, bool software);

}  // namespace ckpt::cuda
