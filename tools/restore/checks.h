// SPDX-License-Identifier: Apache-2.0
//
// Why a restore would fail, all of it, before anything is started.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "tools/device/device.h"
#include "tools/restore/manifest.h"

namespace ckpt::tools {

using Reasons = std::vector<std::string>;

void check_files(const ImageManifest &m, bool truncate, Reasons &reasons);
void check_mapped_files(const ImageManifest &m, Reasons &reasons);
// Which device stands for which: by agent, by API.
using DeviceMap = std::vector<std::pair<std::string, std::string>>;
using DeviceMaps = std::map<u32, std::map<std::string, DeviceMap>>;
DeviceMaps check_device_needs(const ImageManifest &m, const DeviceChoice &choice,
                              bool ignore_limits, Reasons &reasons);
// Truncates what grew and was open for writing.
Result<> truncate_files(const ImageManifest &m);
// True when a number that the image needs is in use here; zombies and process groups count.
bool pids_taken(const ImageManifest &m);

}  // namespace ckpt::tools
