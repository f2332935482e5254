// SPDX-License-Identifier: Apache-2.0
//
// Whether a machine is idle, so that guests may use it (docs/PAPERS.md, CM-7 and CM-8). Samples go
// in, transitions come out; the caller has the clock.
//
//   busy   at once, as soon as a sample has a reason for it
//   idle   once no sample had one for Settings::quiet; a machine begins as busy
//
// The paper's rule: the owner's programs use the processors (30 %), or hold more device memory than
// after boot (1 MB). Either suffices (its text says "the two conditions", but gives a separate
// reason for each). The keyboard is not watched by default, as in the paper.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "common/base/bytes.h"

namespace ckpt::idle {

using Time = std::chrono::microseconds;  // since an arbitrary start

// The measured values of a machine since the previous sample. All programs except the guests' count
// as the owner's.
struct Sample {
  Time at{0};
  double owner_cpu = 0;        // of all processors: 0 to 1
  u64 owner_device_bytes = 0;  // device memory, more than after boot
  bool input = false;          // a key or the mouse was used
  bool on_battery = false;
  std::optional<double> celsius;  // of the warmest part
  std::optional<int> minute;      // of the local day, 0 to 1439
  bool off = false;               // the owner wants no guests
};

// Minutes of the day; guests may run from `begin` until `end`, over midnight if `end` is earlier.
struct Hours {
  int begin = 0, end = 0;
  bool contain(int minute) const;
};

struct Settings {
  double cpu = 0.3;               // busy from here on
  u64 device_bytes = 1u << 20;    // busy from here on
  Time quiet{1'000'000};          // w
  std::optional<Time> input;      // busy for so long after input; no value: input is not watched
  bool battery = false;           // busy on battery
  std::optional<double> celsius;  // busy from here on
  std::optional<Hours> hours;     // busy outside of them
};

enum class Reason : u8 { Start, Off, Hours, Battery, Temperature, Cpu, DeviceMemory, Input, Quiet };
// "off", "hours", "battery", "temperature", "cpu", "device memory", "input"; "start" until the
// first transition; "quiet" for an idle machine.
const char *name_of(Reason reason);

struct Transition {
  Time at{0};
  bool idle = false;
  Reason reason = Reason::Start;
  std::string text;  // "the owner's programs use 45 % of the processors (limit: 30 %)"
};

class Idleness {
 public:
  explicit Idleness(const Settings &settings) : settings_(settings) {}

  // `at` never goes backwards.
  std::optional<Transition> observe(const Sample &sample);
  bool idle() const { return idle_; }
  // The last transition; of a busy machine, with the last reason that was seen.
  const Transition &last() const { return last_; }
  // The time at which the state changes if the samples stay the same; no value: it does not change.
  std::optional<Time> due() const;

 private:
  std::optional<Reason> reason_for_busy(const Sample &s) const;
  bool input_counts(Time now) const;
  Transition enter(const Sample &s, bool idle, Reason reason);
  std::string text_of(const Sample &s, Reason reason) const;

  Settings settings_;
  bool idle_ = false, seen_ = false;
  Time now_{0};
  std::optional<Time> calm_since_;
  Time last_input_{0};
  Transition last_{Time{0}, false, Reason::Start, "it was not watched for long enough yet"};
};

}  // namespace ckpt::idle
