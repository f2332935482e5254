// SPDX-License-Identifier: Apache-2.0
//
// What a restore needs of the machine: devices, PIDs and terminals. file_checks.h has the files.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tools/device/device.h"
#include "tools/manifest/image_manifest.h"
#include "tools/reasons.h"

namespace ckpt::tools {

// Device mappings, as pairs of the old and the new device: by agent, then by API.
using DeviceMap = std::vector<std::pair<std::string, std::string>>;
using DeviceMaps = std::map<u32, std::map<std::string, DeviceMap>>;

// Asks the proxies whether the chosen devices meet the image's requirements.
DeviceMaps check_devices_of(const ImageManifest &m, const DeviceChoice &choice, ReadLimits limits,
                            Reasons &reasons);
// True if an ID that the image needs is in use here, by a process, a zombie or a process group.
bool pids_taken(const ImageManifest &m);
// True if a pseudo-terminal that the program had made has a number that is in use here.
bool terminals_taken(const ImageManifest &m);

}  // namespace ckpt::tools
