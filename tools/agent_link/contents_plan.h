// SPDX-License-Identifier: Apache-2.0
//
// What an image has of the device memory of one agent, and where each chunk goes in a file that is
// filled from it.
//
//   region 0   | chunk | zeros | chunk | chunk |        region 1   | chunk |
//                  \               \       \                           |
//   the file   | chunk |         | chunk | chunk |                 | chunk |     |
//              |<------------- unit ------------>|<----- unit ---- …
//
// A unit is filled as a whole, and contains no part of a chunk. Its neighbouring chunks of a region
// are neighbours in the file, too, so that a device copies them at once.
#pragma once

#include <string>
#include <vector>

#include "storage/read/image_reader.h"

namespace ckpt::tools {

struct ContentsPlan {
  // A fraction of protocol::kFilePieceBytes: large enough for copies at the speed of a bus, and
  // small enough to give work to all cores.
  static constexpr u64 kUnitBytes = 8u << 20;

  struct Region {
    std::string name;
    u64 bytes = 0;
  };
  struct Part {
    u32 chunk = 0;  // in the image
    u64 bytes = 0;
    u64 at = 0;  // in the file
  };
  // Parts that are neighbours.
  struct Run {
    u32 region = 0;
    u64 offset = 0;  // in the region
    u64 bytes = 0;
    u64 at = 0;
  };
  struct Unit {
    std::vector<Part> parts;
    std::vector<Run> runs;
  };
  struct Zeros {
    u32 region = 0;
    u64 offset = 0;
    u64 bytes = 0;
  };

  std::vector<Region> regions;
  std::vector<Zeros> zeros;  // neighbouring ones as one
  std::vector<Unit> units;   // in the order of the file

  u64 file_bytes() const { return units.size() * kUnitBytes; }
};

ContentsPlan plan_contents(const storage::ImageReader &image, u32 agent);

}  // namespace ckpt::tools
