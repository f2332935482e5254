// SPDX-License-Identifier: Apache-2.0
//
// The devices of this machine. Each API's proxy lists its own devices. All tools number them in the
// same way: in the order of kApis, with one index that counts over all APIs.
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
  std::string id;  // for the proxy's --device
  std::string platform;
  std::string name;
  std::string uuid;
  unsigned long long memory_bytes = 0;
  nlohmann::json all;  // the proxy's whole description
};

// The devices that a program may use: the IDs for each API. If an API is absent, all its devices
// may be used. "ID@SOURCE" says, too, where the device's platform comes from, so that its proxy
// need not load the drivers of others.
using DeviceChoice = std::map<std::string, std::vector<std::string>>;

// The devices of the API `only`, or of all APIs if it is empty.
Result<std::vector<Device>> list_devices(std::string_view only = {});
// `spec` is a comma-separated list. An item is an index, "ocl:1", "ocl:rusticl" (part of the
// platform or the name, in any case) or a UUID; or one of these on another node (remote.h). An
// empty `spec` chooses all devices.
Result<DeviceChoice> choose_devices(const std::string &spec);
Result<DeviceChoice> choose_devices(const std::string &spec, const std::vector<Device> &devices);
// Why list_devices() finds nothing.
Error no_devices();
std::string device_table(std::vector<Device> devices);
nlohmann::json device_json(const std::vector<Device> &devices);
// The answer of an API's proxy to the question whether devices can take over a program.
struct DeviceCheck {
  std::vector<std::string> reasons;  // why they cannot; empty: they can
  // The device mapping to send to the program's agent (DeviceMap in agent/protocol.h); may be
  // empty.
  std::vector<std::pair<std::string, std::string>> map;
  std::vector<std::string> warnings;
};
// What a device's lower limit means that the program has only read, and not used.
enum class ReadLimits { Warn, Refuse, Ignore };
// Asks whether the chosen devices meet `requirements`.
Result<DeviceCheck> check_devices(const std::string &api, const DeviceChoice &choice,
                                  const nlohmann::json &requirements, ReadLimits limits);
// Once for each text, since the processes of a program often have read the same.
void warn_of_limits(const std::vector<std::string> &warnings);
// The reason why `choice` does not fit a program that uses `apis`: it names only devices of other
// APIs. Empty if it fits; the program may then use all devices of an API that is not named.
std::string misdirected(const DeviceChoice &choice, const std::set<std::string> &apis);
// Appends the device that a proxy of `api` describes.
void add_device(const std::string &api, const nlohmann::json &description,
                std::vector<Device> &devices);

}  // namespace ckpt::tools
