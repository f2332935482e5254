// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "storage/read/image_reader.h"

namespace ckpt::tools {

// What a stream, or a group of them, costs. A chunk that several streams share is counted as stored
// for the first of them, so that all sums are the file's.
struct StreamCost {
  u64 streams = 0;
  u64 raw_bytes = 0;
  u64 stored_bytes = 0;
  u64 chunks = 0;
  u64 zero_chunks = 0;
  StreamCost &operator+=(const StreamCost &o);
};

// In the order of image.streams().
std::vector<StreamCost> cost_of_streams(const storage::ImageReader &image);

// "host memory", "device objects", "CRIU", or the first part of the name.
std::string group_of(std::string_view stream);
std::map<std::string, StreamCost> cost_of_groups(const storage::ImageReader &image);

}  // namespace ckpt::tools
