// SPDX-License-Identifier: Apache-2.0
//
// Devices of other nodes, as --device names them: remote:HOST/ocl:0. In a DeviceChoice their IDs
// carry the host, too: "remote:HOST/ID". Their proxy is ckpt-remote-proxy.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "common/base/result.h"
#include "tools/device/device.h"

namespace ckpt::tools {

struct RemoteName {
  std::string host;    // where ckpt-devd listens: HOST, HOST:PORT, or a path
  std::string device;  // the name of a device on that node; empty: every device
};

// No value: the name is one of this node.
std::optional<RemoteName> parse_remote(const std::string &name);

// The devices of the node `host`, with IDs and numbers of that node; of the API `only`, or of all
// APIs if it is empty.
Result<std::vector<Device>> list_remote_devices(const std::string &host,
                                                std::string_view only = {});

// `spec` has names of one other node; for CUDA also names of this one.
Result<DeviceChoice> choose_remote_devices(const std::string &spec);

// Whether devices of another node were chosen, and whether there are others beside them.
bool is_remote(const DeviceChoice &choice);
bool is_split(const DeviceChoice &choice);
// Where they are: "remote:HOST" if one is of that node, otherwise kHere.
inline constexpr std::string_view kHere = "here", kRemotePrefix = "remote:";
std::string place_of(const DeviceChoice &choice);
std::string text_of_place(const std::string &place);  // for readers
// Why a program cannot begin with such devices.
Error not_split_at_start();

// How the proxy for an API's chosen devices is called: its executable, and the arguments that name
// the devices. Empty: the executable does not exist.
std::vector<std::string> proxy_command(const std::string &api, const DeviceChoice &choice);

}  // namespace ckpt::tools
