// SPDX-License-Identifier: Apache-2.0
#include "idle/sample_log.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace ckpt::idle {
namespace {

// Ten years, in seconds: more is a mistake, and overflows nothing.
constexpr double kMostSeconds = 10 * 366 * 86400.0;
constexpr double kMostBytes = 1e18;

Result<double> number(std::string_view text, double least, double most) {
  double value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value >= least) ||
      !(value <= most))
    return fail("\"{}\" is not a number from {} to {}", text, least, most);
  return value;
}

std::string_view next_word(std::string_view &line) {
  constexpr std::string_view kBlank = " \t\r";
  line.remove_prefix(std::min(line.find_first_not_of(kBlank), line.size()));
  std::string_view word = line.substr(0, line.find_first_of(kBlank));
  line.remove_prefix(word.size());
  return word;
}

Result<> set_value(Sample &s, std::string_view name, std::string_view value) {
  if (name == "cpu") {
    CKPT_TRY(double percent, number(value, 0, 100));
    s.owner_cpu = percent / 100;
  } else if (name == "device") {
    CKPT_TRY(double bytes, number(value, 0, kMostBytes));
    s.owner_device_bytes = static_cast<u64>(bytes);
  } else if (name == "celsius") {
    CKPT_TRY(s.celsius, number(value, -273, 10000));
  } else if (name == "minute") {
    CKPT_TRY(double minute, number(value, 0, 1439));
    s.minute = static_cast<int>(minute);
  } else {
    return fail("\"{}\" is not known", name);
  }
  return {};
}

Result<> set(Sample &s, std::string_view word) {
  if (size_t equals = word.find('='); equals != word.npos)
    return set_value(s, word.substr(0, equals), word.substr(equals + 1));
  if (word == "input")
    s.input = true;
  else if (word == "battery")
    s.on_battery = true;
  else if (word == "off")
    s.off = true;
  else
    return fail("\"{}\" is not known", word);
  return {};
}

}  // namespace

Result<std::optional<Sample>> parse_sample(std::string_view line) {
  std::string_view word = next_word(line);
  if (word.empty() || word[0] == '#') return std::optional<Sample>();
  CKPT_TRY(double seconds, number(word, 0, kMostSeconds));
  Sample s;
  s.at = Time(std::llround(seconds * 1e6));
  while (!(word = next_word(line)).empty()) CKPT_CHECK(set(s, word));
  return std::optional(s);
}

std::string text_of(const Sample &s) {
  std::string text =
      fmt::format("{:.6f} cpu={:.1f}", static_cast<double>(s.at.count()) / 1e6, s.owner_cpu * 100);
  if (s.owner_device_bytes > 0) text += fmt::format(" device={}", s.owner_device_bytes);
  if (s.celsius) text += fmt::format(" celsius={:.1f}", *s.celsius);
  if (s.minute) text += fmt::format(" minute={}", *s.minute);
  if (s.input) text += " input";
  if (s.on_battery) text += " battery";
  if (s.off) text += " off";
  return text;
}

Result<std::vector<Sample>> parse_log(std::string_view text) {
  std::vector<Sample> log;
  for (size_t line = 1; !text.empty(); line++) {
    std::string_view one = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(one.size() + 1, text.size()));
    Result<std::optional<Sample>> sample = parse_sample(one);
    if (!sample) return fail("line {}: {}", line, sample.error().what);
    if (!*sample) continue;
    if (!log.empty() && (*sample)->at < log.back().at)
      return fail("line {}: its time is before that of the line above", line);
    log.push_back(**sample);
  }
  return log;
}

Replay replay(const std::vector<Sample> &log, const Settings &settings) {
  Replay r;
  if (log.empty()) return r;
  r.begin = log.front().at;
  r.end = log.back().at;
  Idleness machine(settings);
  Time idle_since{0};
  auto see = [&](const Sample &s) {
    std::optional<Transition> t = machine.observe(s);
    if (!t) return;
    if (t->idle)
      idle_since = t->at;
    else if (!r.transitions.empty())
      r.idle += t->at - idle_since;
    r.transitions.push_back(std::move(*t));
  };
  for (size_t i = 0; i + 1 < log.size(); i++) {
    see(log[i]);
    Sample held = log[i];
    held.input = false;
    for (std::optional<Time> due = machine.due(); due && *due < log[i + 1].at;
         due = machine.due()) {
      held.at = *due;
      see(held);
    }
  }
  if (machine.idle()) r.idle += r.end - idle_since;
  return r;
}

}  // namespace ckpt::idle
