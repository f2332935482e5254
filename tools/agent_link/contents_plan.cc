// SPDX-License-Identifier: Apache-2.0
#include "tools/agent_link/contents_plan.h"

#include "common/base/rounded_up.h"
#include "tools/agent_link/device_streams.h"

namespace ckpt::tools {
namespace {

constexpr u64 kAlign = 4096;
constexpr u64 kMostZeros = u64{1} << 30;

static_assert(storage::kMaxChunkBytes <= ContentsPlan::kUnitBytes);

class Planner {
 public:
  explicit Planner(const storage::ImageReader &image) : image_(image) {}

  void add(const storage::StreamEntry &stream, const std::string &name) {
    u32 region = static_cast<u32>(plan_.regions.size());
    plan_.regions.push_back({name, stream.size});
    for (size_t i = 0; i < stream.chunks.size(); ++i) {
      const storage::ChunkEntry &chunk = image_.index().chunks[stream.chunks[i]];
      if (chunk.codec == storage::Codec::Zero)
        add_zeros(region, stream.starts[i], chunk.raw_size);
      else
        add_chunk(region, stream.starts[i], stream.chunks[i], chunk.raw_size);
    }
  }
  ContentsPlan take() { return std::move(plan_); }

 private:
  void add_zeros(u32 region, u64 offset, u64 bytes) {
    if (!plan_.zeros.empty()) {
      ContentsPlan::Zeros &last = plan_.zeros.back();
      if (last.region == region && last.offset + last.bytes == offset &&
          last.bytes + bytes <= kMostZeros) {
        last.bytes += bytes;
        return;
      }
    }
    plan_.zeros.push_back({region, offset, bytes});
  }

  void add_chunk(u32 region, u64 offset, u32 chunk, u64 bytes) {
    if (plan_.units.empty() || used_ + bytes > ContentsPlan::kUnitBytes) {
      plan_.units.emplace_back();
      used_ = 0;
    }
    ContentsPlan::Unit &unit = plan_.units.back();
    u64 at = (plan_.units.size() - 1) * ContentsPlan::kUnitBytes + used_;
    unit.parts.push_back({chunk, bytes, at});
    add_run(unit, {region, offset, bytes, at});
    used_ = rounded_up(used_ + bytes, kAlign);
  }

  static void add_run(ContentsPlan::Unit &unit, const ContentsPlan::Run &run) {
    if (!unit.runs.empty()) {
      ContentsPlan::Run &last = unit.runs.back();
      if (last.region == run.region && last.offset + last.bytes == run.offset &&
          last.at + last.bytes == run.at) {
        last.bytes += run.bytes;
        return;
      }
    }
    unit.runs.push_back(run);
  }

  const storage::ImageReader &image_;
  ContentsPlan plan_;
  u64 used_ = 0;  // of the last unit
};

}  // namespace

ContentsPlan plan_contents(const storage::ImageReader &image, u32 agent) {
  std::string prefix = device_stream_prefix(agent);
  Planner planner(image);
  for (const storage::StreamEntry &stream : image.streams())
    if (stream.name.starts_with(prefix)) planner.add(stream, stream.name.substr(prefix.size()));
  return planner.take();
}

}  // namespace ckpt::tools
