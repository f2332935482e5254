// SPDX-License-Identifier: Apache-2.0
//
// Where the samples come from: this machine, or lines that another program writes.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "idle/idleness.h"
#include "tools/idled/device_memory.h"
#include "tools/idled/input.h"
#include "tools/idled/off_switch.h"
#include "tools/idled/processors.h"

namespace ckpt::tools {

struct Seen {
  idle::Sample sample;
  double guest_cpu = 0;  // of all processors: 0 to 1
};

class Sensors {
 public:
  virtual ~Sensors() = default;
  // Without `at` and `off`. If a value cannot be read, this fails, or it logs that and returns the
  // last value.
  virtual Result<Seen> read() = 0;
};

class MachineSensors final : public Sensors {
 public:
  MachineSensors(Guests guests, std::unique_ptr<DeviceMemory> memory, BootMemory boot,
                 std::optional<InputDevices> input)
      : guests_(std::move(guests)),
        memory_(std::move(memory)),
        boot_(std::move(boot)),
        input_(std::move(input)) {}
  Result<Seen> read() override;

 private:
  u64 owner_device_bytes();

  Guests guests_;
  Processors processors_;
  std::unique_ptr<DeviceMemory> memory_;  // null: none
  BootMemory boot_;
  std::optional<InputDevices> input_;
  u64 device_bytes_ = 0;
  bool memory_failed_ = false;
};

// The last whole line of a file in the form of idle/sample_log.h. If the file is missing or has no
// line yet, the machine is busy.
class FileSensors final : public Sensors {
 public:
  explicit FileSensors(std::string path) : path_(std::move(path)) {}
  Result<Seen> read() override;

 private:
  Result<std::string> last_line() const;
  std::string path_;
};

}  // namespace ckpt::tools
