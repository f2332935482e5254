// SPDX-License-Identifier: Apache-2.0
//
// The state of the node and its counters, in Prometheus's text exposition format, version 0.0.4.
// Names and labels are stable; docs/man/ckptd.8.scd lists them.
#pragma once

#include "manager/daemon/measure/energy.h"
#include "manager/daemon/report/counters.h"

namespace ckpt::manager {

inline constexpr const char *kMetricsType = "text/plain; version=0.0.4; charset=utf-8";

std::string metrics_text(const Policy &policy, const Meter &meter, const Counters &counters,
                         const EnergyShares &energy = {});

}  // namespace ckpt::manager
