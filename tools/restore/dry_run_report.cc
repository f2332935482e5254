// SPDX-License-Identifier: Apache-2.0
//
// What ckpt-restore --resume --dry-run says, for programs and for users.
#include <algorithm>
#include <cmath>

#include "common/base/printable.h"
#include "common/base/units.h"
#include "tools/device/remote.h"
#include "tools/restore/dry_run.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;
using schedule::Estimate;
using schedule::Forecast;
using schedule::Way;
using Sense = Estimate::Sense;

constexpr size_t kMostUnknownBytes = 2000;

const char *word_of(Sense s) {
  switch (s) {
    case Sense::About: return "about";
    case Sense::AtLeast: return "at least";
    case Sense::AtMost: return "at most";
    case Sense::Unknown: break;
  }
  return "unknown";
}

json optional_json(const std::optional<double> &figure) { return figure ? json(*figure) : json(); }

json estimate_json(const Estimate &e) {
  return e.known() ? json{{"seconds", e.value}, {"sense", word_of(e.sense)}} : json();
}

json way_json(const std::string &place, const Way &way) {
  return {{"place", place.empty() ? json() : json(place)},
          {"answer_seconds", way.here ? json() : optional_json(way.answer)},
          {"bytes_per_second", way.here ? json() : optional_json(way.rate)}};
}

const char *pays_json(Forecast::Pays p) {
  switch (p) {
    case Forecast::Pays::After: return "after";
    case Forecast::Pays::Never: return "never";
    case Forecast::Pays::Unknown: break;
  }
  return "unknown";
}

// Three significant digits: "2.14 ms", "60.2 ms", "0.931 s", "1240 s".
std::string seconds_text(double s) {
  bool small = s < 0.1;
  double value = small ? s * 1e3 : s;
  int digits =
      value > 0 ? std::clamp(2 - static_cast<int>(std::floor(std::log10(value))), 0, 5) : 0;
  return fmt::format("{:.{}f} {}", value, digits, small ? "ms" : "s");
}

std::string text_of(const Estimate &e) {
  return e.known() ? fmt::format("{} {}", word_of(e.sense), seconds_text(e.value)) : "unknown";
}

// A keeper of another user has said where devices are.
std::string place_text(const std::string &place) { return printable(text_of_place(place)); }

json possible_json(const MoveDryRun &r) {
  return r.reasons.empty() && !r.checked ? json() : json(r.reasons.empty());
}

const char *check_text(const MoveDryRun &r) {
  if (!r.reasons.empty()) return "would be refused";
  return r.checked ? "possible now" : "unknown: see below";
}

double steps_of(const MoveDryRun &r) { return std::ceil(r.forecast.after.value / *r.step); }

std::string move_text(const MoveDryRun &r) {
  std::string text =
      fmt::format("move     to {}: {} without devices, for {} of contents", place_text(r.to),
                  text_of(schedule::sum_of_parts(r.leave, r.enter)),
                  human_bytes(static_cast<u64>(r.held_bytes)));
  if (r.suspended) {
    text = fmt::format("resume   on {}: {}, for {} of contents", place_text(r.to), text_of(r.enter),
                       human_bytes(static_cast<u64>(r.held_bytes)));
    if (r.from != r.to)
      text += fmt::format("; on {}, where it was, {}", place_text(r.from), text_of(r.back));
    return text + "\n";
  }
  return text + fmt::format(" ({} to leave, {} to get the new ones)\n", text_of(r.leave),
                            text_of(r.enter));
}

std::string lost_text(const MoveDryRun &r) {
  if (r.now.here) return "no time";
  Estimate lost = schedule::lost_share(r.work, r.now);
  if (!lost.known()) return "unknown";
  return fmt::format("{} {:.1f} % of its time", word_of(lost.sense), 100 * lost.value);
}

std::string now_text(const MoveDryRun &r) {
  if (!r.work.waits) return "";
  std::string text = fmt::format("now      it waits {:.1f} times a second", *r.work.waits);
  if (!r.now.here && r.now.answer) text += fmt::format(", {} each", seconds_text(*r.now.answer));
  text += fmt::format(", and moves {} a second: the way to its devices costs {}",
                      human_bytes(static_cast<u64>(r.work.bytes.value_or(0))), lost_text(r));
  return text + fmt::format(" ({} {})\n", r.suspended ? "while it had them," : "watched for",
                            seconds_text(r.watched));
}

std::string then_text(const MoveDryRun &r) {
  const Estimate &then = r.forecast.then;
  if (!then.known()) return "then     unknown\n";
  if (!r.step) return fmt::format("then     what takes a second now takes {}\n", text_of(then));
  return fmt::format("step     {} now, {} then\n", seconds_text(*r.step),
                     text_of(Estimate{then.sense, then.value * *r.step}));
}

std::string pays_text(const MoveDryRun &r) {
  const Forecast &f = r.forecast;
  if (f.pays == Forecast::Pays::Never) return "pays     not: it gains no time\n";
  if (f.pays == Forecast::Pays::Unknown) return "pays     unknown\n";
  std::string text = fmt::format("pays     if it still runs for {}", text_of(f.after));
  if (r.step) text += fmt::format(", or {:.0f} steps", steps_of(r));
  return text + "\n";
}

}  // namespace

json as_json(const MoveDryRun &r) {
  const Forecast &f = r.forecast;
  json report{{"pid", r.pid},
              {"program", r.program},
              {"state", r.suspended ? "suspended" : "running"},
              {"device", r.device},
              {"possible", possible_json(r)},
              {"reasons", r.reasons},
              {"unknown", r.unknown},
              {"device_bytes", static_cast<u64>(r.held_bytes)},
              {"watched_seconds", r.watched},
              {"waits_per_second", optional_json(r.work.waits)},
              {"bytes_per_second", optional_json(r.work.bytes)},
              {"now", way_json(r.from, r.now)},
              {"then", way_json(r.to, r.then)},
              {"leave", estimate_json(r.leave)},
              {"enter", estimate_json(r.enter)},
              {"earlier_moves", {{"leave", r.left}, {"enter", r.entered}}},
              {"move", estimate_json(f.move)},
              {"second_then", estimate_json(f.then)},
              {"pays", pays_json(f.pays)},
              {"pays_after", estimate_json(f.after)}};
  if (r.suspended) report["back"] = estimate_json(r.back);
  if (!r.step) return report;
  report["step"] = {{"now", *r.step},
                    {"then", f.then.known() ? json(f.then.value * *r.step) : json()},
                    {"pays_after", f.after.known() ? json(steps_of(r)) : json()}};
  return report;
}

std::string text_of(const MoveDryRun &r) {
  std::string text = fmt::format("program  {} ({}), {}; it was not touched\n", r.pid,
                                 printable(r.program), r.suspended ? "suspended" : "running");
  text += fmt::format("check    {}\n", check_text(r));
  text += move_text(r) + now_text(r);
  if (r.from != r.to) text += then_text(r) + pays_text(r);
  for (const std::string &what : r.unknown)
    text += fmt::format("unknown  {}\n", printable(what, kMostUnknownBytes));
  return text;
}

Error refusal_of(const MoveDryRun &r) {
  return {fmt::format("the program cannot be {} these devices:{}",
                      r.suspended ? "resumed on" : "moved to", as_list(r.reasons)),
          "the program was not touched; choose other devices with --device"};
}

}  // namespace ckpt::tools
