// SPDX-License-Identifier: Apache-2.0
//
// Reads of small pieces of device memory that come along with an earlier one.
//
// A program often reads several things one directly behind the other, such as an energy and
// positions after each step, and each of these reads is a round trip. When the program has twice
// made a read directly behind another one, the next such pair is asked for together. The server
// adds the bytes of the second read only if the device has nothing to do then. So they are right
// until the program's next call, with which they are forgotten.
#pragma once

#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "common/base/bytes.h"

namespace ckpt::remote::cuda {

struct DeviceRange {
  u64 address, bytes;
  auto operator<=>(const DeviceRange &) const = default;
};

class ReadAhead {
 public:
  // The program reads `r`; `calls`: how many calls it has sent to the server so far. True: the
  // bytes came along with an earlier read, and are in `to` now.
  bool take(const DeviceRange &r, u64 calls, void *to);
  // What is likely to be read directly behind `r`.
  std::vector<DeviceRange> behind(const DeviceRange &r) const;
  // The read that was taken last has been made. `bytes` of `ranges` have come along, one behind the
  // other, or none.
  void keep(u64 calls, std::vector<DeviceRange> ranges, Bytes bytes);

 private:
  void note_order(const DeviceRange &r, bool directly);

  struct Next {
    DeviceRange range;
    int times;
  };
  mutable std::mutex mutex_;
  std::optional<DeviceRange> last_;
  std::map<DeviceRange, Next> next_;
  u64 calls_ = 0;  // when the last read was made
  std::vector<DeviceRange> ranges_;
  Bytes bytes_;  // of ranges_
};
ReadAhead &read_ahead();

}  // namespace ckpt::remote::cuda
