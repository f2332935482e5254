// SPDX-License-Identifier: Apache-2.0
//
// Everything that would make a restore fail, found before anything is started.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tools/device/device.h"
#include "tools/reasons.h"
#include "tools/restore/image_manifest.h"

namespace ckpt::tools {

// Device mappings, as pairs of the old and the new device: by agent, then by API.
using DeviceMap = std::vector<std::pair<std::string, std::string>>;
using DeviceMaps = std::map<u32, std::map<std::string, DeviceMap>>;

void check_files(const ImageManifest &m, bool truncate, Reasons &reasons);
void check_mapped_files(const ImageManifest &m, Reasons &reasons);
// Asks the proxies whether the chosen devices meet the image's requirements.
DeviceMaps check_devices_of(const ImageManifest &m, const DeviceChoice &choice, bool ignore_limits,
                            Reasons &reasons);
// Truncates files that grew since the dump and that the program has open for writing.
Result<> truncate_files(const ImageManifest &m);
// True if an ID that the image needs is in use here, by a process, a zombie or a process group.
bool pids_taken(const ImageManifest &m);

}  // namespace ckpt::tools
