// SPDX-License-Identifier: Apache-2.0
//
// The one numbering of devices (design decision 7): every API's proxy lists its own, in the order
// of kApis; the index counts over all of them.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "common/base/result.h"

namespace ckpt::tools {

struct Device {
  int index = 0;
  std::string api;
  std::string id;  // what its proxy takes for --device
  std::string platform;
  std::string name;
  std::string uuid;
  unsigned long long memory_bytes = 0;
  nlohmann::json all;  // the proxy's own words
};

// The devices that a program may use: per API the IDs for its proxy. An API that is absent: all.
using DeviceChoice = std::map<std::string, std::vector<std::string>>;

// Of one API, or of all.
Result<std::vector<Device>> list_devices(std::string_view only = {});
// `spec`: a comma list of an index, "ocl:1", "ocl:rusticl" (part of the platform or the name, any
// case) or a UUID. Empty: no choice.
Result<DeviceChoice> choose_devices(const std::string &spec);
Result<DeviceChoice> choose_devices(const std::string &spec, const std::vector<Device> &devices);
std::string device_table(const std::vector<Device> &devices);
nlohmann::json device_json(const std::vector<Device> &devices);
// What the proxy of an API says of a program that is to come to its devices.
struct DeviceCheck {
  std::vector<std::string> reasons;  // why not
  // Which device stands for which, where the program's side has to be told (agent/protocol.h,
  // DeviceMap).
  std::vector<std::pair<std::string, std::string>> map;
};
// Asks whether the chosen devices satisfy `needs`. With `ignore_limits` what the program only read
// of its device does not count.
Result<DeviceCheck> check_devices(const std::string &api, const DeviceChoice &choice,
                                  const nlohmann::json &needs, bool ignore_limits);
// Why a choice cannot be meant for a program that uses `apis`: it names devices of others alone.
// Empty: it can; of an API that it does not name the program may use all devices.
std::string misdirected(const DeviceChoice &choice, const std::set<std::string> &apis);
// The arguments for a proxy: --device IDS, or nothing.
std::vector<std::string> device_arguments(const std::string &api, const DeviceChoice &choice);

}  // namespace ckpt::tools
