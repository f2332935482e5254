// SPDX-License-Identifier: Apache-2.0
#include "libckpt-cuda/lifecycle/requirements.h"

#include <algorithm>

#include <nlohmann/json.hpp>

#include "libckpt-cuda/code/code.h"
#include "libckpt-cuda/memory/contexts.h"
#include "libckpt-cuda/memory/served.h"

namespace ckpt::cuda {

std::string requirements_as_json(const Devices &devices) {
  using nlohmann::json;
  std::vector<ContextInfo> contexts = live_contexts();
  json list = json::array();
  for (const DeviceInfo &d : devices.visible) {
    auto on_it = [&](const ContextInfo &c) { return c.device == d.number; };
    list.push_back({{"number", d.number},
                    {"name", d.name},
                    {"uuid", d.uuid},
                    {"memory_bytes", d.memory_bytes},
                    {"capability", d.capability},
                    {"used", std::ranges::any_of(contexts, on_it)},
                    {"bytes", served_bytes(d.number)},
                    {"driver_bytes", d.driver_bytes}});
  }
  CodeFacts code = code_facts();
  json all = {{"devices", list},
              {"gpus", devices.gpus},
              {"device_heap", {{"used", code.device_heap}, {"why", code.reason}}}};
  return all.dump(-1, ' ', false, json::error_handler_t::replace);
}

}  // namespace ckpt::cuda
