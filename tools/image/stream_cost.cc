// SPDX-License-Identifier: Apache-2.0
#include "tools/image/stream_cost.h"

namespace ckpt::tools {

StreamCost &StreamCost::operator+=(const StreamCost &o) {
  streams += o.streams;
  raw_bytes += o.raw_bytes;
  stored_bytes += o.stored_bytes;
  chunks += o.chunks;
  zero_chunks += o.zero_chunks;
  return *this;
}

std::vector<StreamCost> cost_of_streams(const storage::ImageReader &image) {
  std::vector<bool> seen(image.index().chunks.size());
  std::vector<StreamCost> out;
  for (const storage::StreamEntry &s : image.streams()) {
    StreamCost cost{.streams = 1, .raw_bytes = s.size, .chunks = s.chunks.size()};
    for (u32 c : s.chunks) {
      const storage::ChunkEntry &entry = image.index().chunks[c];
      cost.zero_chunks += entry.codec == storage::Codec::Zero;
      if (!seen[c] && entry.file == 0) cost.stored_bytes += entry.stored_size;
      seen[c] = true;
    }
    out.push_back(cost);
  }
  return out;
}

std::string group_of(std::string_view stream) {
  if (stream.starts_with("criu/pages-")) return "host memory";
  if (stream.starts_with("criu/")) return "CRIU";
  for (std::string_view device : {"device/", "ocl/", "cuda/"})
    if (stream.starts_with(device)) return "device objects";
  return std::string(stream.substr(0, stream.find('/')));
}

std::map<std::string, StreamCost> cost_of_groups(const storage::ImageReader &image) {
  std::vector<StreamCost> costs = cost_of_streams(image);
  std::map<std::string, StreamCost> out;
  for (size_t i = 0; i < costs.size(); ++i) out[group_of(image.streams()[i].name)] += costs[i];
  return out;
}

}  // namespace ckpt::tools
