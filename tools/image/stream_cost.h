// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <string>
#include <vector>

#include "storage/read/image_reader.h"

namespace ckpt::tools {

// The size of a stream or of a group of streams. A chunk that several streams share counts as
// stored only for the first of them, so that the sums agree with the file's size.
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

// "host memory", "device objects", "CRIU", or else the part of the name before the first slash.
std::string group_of(std::string_view stream);
std::map<std::string, StreamCost> cost_of_groups(const storage::ImageReader &image);

}  // namespace ckpt::tools
