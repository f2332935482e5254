// SPDX-License-Identifier: Apache-2.0
//
// What a dump has done, and what ckpt-dump prints of it.
#pragma once

#include <sys/types.h>

#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>

#include "storage/format/image_stats.h"

namespace ckpt::tools {

inline constexpr size_t kMaxRemarkBytes = 2000;  // an agent has written them

struct DumpReport {
  std::string image;
  pid_t pid = 0;
  size_t processes = 0;
  storage::ImageStats stats;
  size_t carried_files = 0;  // of with_files
  u64 carried_bytes = 0;
  u64 device_bytes = 0;            // the contents of device memory
  u64 unchanged_bytes = 0;         // of device memory, not read because it equals the parent's
  u64 zero_bytes = 0;              // of device memory, not read because the device saw zeros
  std::vector<std::string> blind;  // why devices did not look at their memory first
  double pause_seconds = 0;    // from closing the gate until the program runs again or has ended
  double durable_seconds = 0;  // from closing the gate until the image is on the disk
  double seconds = 0;          // of the whole dump
  double quiesce_seconds = 0;  // of the pause: `before` callbacks, and until the devices were idle
  std::map<std::string, double> waits;  // of that, by API; and for "callbacks"
  nlohmann::json phases;
  std::string program;
  std::vector<std::string> apis;      // of the devices that it uses
  std::vector<std::string> remarks;   // of the agents, on the program's use of devices
  std::vector<std::string> warnings;  // of what failed after the image was complete
};

nlohmann::json as_json(const DumpReport &r);
// With -o - the image takes standard output, so the report goes to standard error.
FILE *report_file(const std::string &image);
void print_report(const DumpReport &r, bool left_running);

}  // namespace ckpt::tools
