// SPDX-License-Identifier: Apache-2.0
#include "idle/idleness.h"

#include <algorithm>
#include <array>
#include <utility>

#include <fmt/format.h>

#include "common/base/units.h"

namespace ckpt::idle {
namespace {

double seconds(Time t) { return static_cast<double>(t.count()) / 1e6; }

std::string clock_time(int minute) { return fmt::format("{:02}:{:02}", minute / 60, minute % 60); }

}  // namespace

bool Hours::contain(int minute) const {
  if (begin <= end) return begin <= minute && minute < end;
  return minute >= begin || minute < end;
}

const char *name_of(Reason reason) {
  constexpr std::array kNames = {"start", "off",           "hours", "battery", "temperature",
                                 "cpu",   "device memory", "input", "quiet"};
  return kNames[static_cast<size_t>(reason)];
}

// Nothing is known of input before the first sample, so it counts as input.
bool Idleness::input_counts(Time now) const {
  return settings_.input && now < last_input_ + *settings_.input;
}

std::optional<Reason> Idleness::reason_for_busy(const Sample &s) const {
  if (s.off) return Reason::Off;
  if (settings_.hours && s.minute && !settings_.hours->contain(*s.minute)) return Reason::Hours;
  if (settings_.battery && s.on_battery) return Reason::Battery;
  if (settings_.celsius && s.celsius && *s.celsius >= *settings_.celsius)
    return Reason::Temperature;
  if (s.owner_cpu >= settings_.cpu) return Reason::Cpu;
  if (s.owner_device_bytes >= settings_.device_bytes) return Reason::DeviceMemory;
  if (input_counts(s.at)) return Reason::Input;
  return {};
}

std::optional<Transition> Idleness::observe(const Sample &s) {
  now_ = s.at;
  if (s.input || !seen_) last_input_ = s.at;
  bool first = !std::exchange(seen_, true);
  if (std::optional<Reason> reason = reason_for_busy(s)) {
    calm_since_.reset();
    if (idle_ || first) return enter(s, false, *reason);
    last_.reason = *reason;
    last_.text = text_of(s, *reason);
    return {};
  }
  if (!calm_since_) calm_since_ = s.at;
  if (idle_ || s.at < *calm_since_ + settings_.quiet) return {};
  return enter(s, true, Reason::Quiet);
}

std::optional<Time> Idleness::due() const {
  if (calm_since_) return idle_ ? std::nullopt : std::optional(*calm_since_ + settings_.quiet);
  if (input_counts(now_)) return last_input_ + *settings_.input;
  return {};
}

Transition Idleness::enter(const Sample &s, bool idle, Reason reason) {
  idle_ = idle;
  last_ = {s.at, idle, reason, text_of(s, reason)};
  return last_;
}

std::string Idleness::text_of(const Sample &s, Reason reason) const {
  switch (reason) {
    case Reason::Start: break;
    case Reason::Off: return "guests are switched off";
    case Reason::Hours:
      return fmt::format("it is {}, and guests run from {} to {}", clock_time(*s.minute),
                         clock_time(settings_.hours->begin), clock_time(settings_.hours->end));
    case Reason::Battery: return "the machine runs on battery";
    case Reason::Temperature:
      return fmt::format("it is {:.0f} °C warm (limit: {:.0f})", *s.celsius, *settings_.celsius);
    case Reason::Cpu:
      return fmt::format("the owner's programs use {:.0f} % of the processors (limit: {:.0f} %)",
                         s.owner_cpu * 100, settings_.cpu * 100);
    case Reason::DeviceMemory:
      return fmt::format(
          "the owner's programs hold {} more device memory than after boot (limit: {})",
          human_bytes(s.owner_device_bytes), human_bytes(settings_.device_bytes));
    case Reason::Input:
      return fmt::format("the keyboard or the mouse was used in the last {:.0f} s",
                         seconds(*settings_.input));
    case Reason::Quiet: return fmt::format("quiet for {:g} s", seconds(settings_.quiet));
  }
  return {};
}

}  // namespace ckpt::idle
