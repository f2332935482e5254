// SPDX-License-Identifier: Apache-2.0
#include "tools/history/picture.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <map>

#include <fmt/format.h>

#include "common/base/json_fields.h"
#include "common/base/printable.h"
#include "tools/history/history.h"
#include "tools/svg.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

constexpr double kWidth = 1080, kLeft = 320, kRight = 80, kTop = 44, kBar = 10, kGap = 10;
constexpr double kPlot = kWidth - kLeft - kRight, kLegend = 140;
constexpr const char *kGrey = "#777", *kPale = "#eee";
// A user may have written the lines by hand.
constexpr size_t kMostSteps = 100, kMostNameBytes = 24;

struct Step {
  std::string name;
  double start = 0, seconds = 0;
  size_t lane = 0;  // steps that overlap are drawn below each other
  double end() const { return start + seconds; }
};

// A dump or a restore.
struct Row {
  std::string label;
  double seconds = 0;
  std::vector<Step> steps;
  size_t lanes = 1;
  double height() const { return kBar * static_cast<double>(lanes) + kGap; }
};

// Lines of a ckpt that did not record the starts have no steps.
std::vector<Step> steps_of(const json &event) {
  std::vector<Step> steps;
  const json &lasted = json_object(event, "phases");
  for (const auto &[name, start] : json_object(event, "starts").items())
    if (start.is_number() && steps.size() < kMostSteps)
      steps.push_back({.name = printable(name, kMostNameBytes),
                       .start = bounded_seconds(start.get<double>()),
                       .seconds = seconds_in(lasted, name.c_str())});
  std::ranges::stable_sort(steps, {}, &Step::start);
  return steps;
}

// Each into the first lane that is free. Returns their number.
size_t put_into_lanes(std::vector<Step> &steps) {
  std::vector<double> ends;
  for (Step &s : steps) {
    while (s.lane < ends.size() && ends[s.lane] > s.start) s.lane++;
    if (s.lane == ends.size()) ends.push_back(0);
    ends[s.lane] = s.end();
  }
  return std::max<size_t>(1, ends.size());
}

Row row_of(const json &event) {
  std::string program = std::filesystem::path(json_string(event, "program")).filename().string();
  bool failed = json_string(event, "result") == "failed";
  Row row{.label = fmt::format("{} {} {}{}", local_time_of(event),
                               printable(json_string(event, "event", "?"), kMostNameBytes),
                               printable(program, kMostNameBytes), failed ? " (failed)" : ""),
          .seconds = seconds_in(event, "seconds"),
          .steps = steps_of(event)};
  row.lanes = put_into_lanes(row.steps);
  for (const Step &s : row.steps) row.seconds = std::max(row.seconds, s.end());
  return row;
}

std::string duration_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.0f} ms", seconds * 1000) : fmt::format("{:.2f} s", seconds);
}

class Picture {
 public:
  explicit Picture(const std::vector<Row> &rows) : rows_(rows) {
    for (const Row &r : rows) longest_ = std::max(longest_, r.seconds), bottom_ += r.height();
  }

  std::string draw(const std::string &title) {
    svg_.text(20, 20, title);
    draw_axis();
    double y = kTop;
    for (const Row &r : rows_) draw_row(r, y), y += r.height();
    return svg_.picture(draw_legend(bottom_ + 40));
  }

 private:
  double at(double seconds) const { return kLeft + seconds / longest_ * kPlot; }

  // Round distances, at most eight of them.
  void draw_axis() {
    double power = std::pow(10, std::floor(std::log10(longest_ / 8))), step = power;
    for (double times : {1.0, 2.0, 5.0, 10.0})
      if (step = power * times; longest_ / step <= 8) break;
    for (int i = 0; i * step <= longest_; i++) {
      svg_.line(at(i * step), kTop - 6, at(i * step), bottom_);
      svg_.text(at(i * step), bottom_ + 16, fmt::format("{:g} s", i * step), "middle");
    }
  }

  void draw_row(const Row &row, double y) {
    constexpr double kLeastSeen = 0.5;
    svg_.text(kLeft - 8, y + kBar, row.label, "end");
    svg_.rect(kLeft, y, at(row.seconds) - kLeft, kBar, kPale);
    svg_.text(at(row.seconds) + 6, y + kBar, duration_text(row.seconds), "start", kGrey);
    for (const Step &s : row.steps)
      svg_.rect(at(s.start), y + kBar * static_cast<double>(s.lane),
                std::max(at(s.seconds) - kLeft, kLeastSeen), kBar, colour_of(s.name),
                fmt::format("{}: {}", s.name, duration_text(s.seconds)));
  }

  // Black is for text. Neighbours differ, as names get their colours in the order of the steps.
  const char *colour_of(const std::string &step) {
    auto [at, is_new] = colours_.try_emplace(step, colours_.size());
    if (is_new) names_.push_back(step);
    return kColours[1 + at->second % (kColours.size() - 1)];
  }

  double draw_legend(double y) {
    double x = 20;
    for (const std::string &name : names_) {
      if (x + kLegend > kWidth) x = 20, y += 18;
      svg_.rect(x, y, kBar, kBar, colour_of(name));
      svg_.text(x + kBar + 6, y + kBar, name);
      x += kLegend;
    }
    return y + 30;
  }

  const std::vector<Row> &rows_;
  double longest_ = 1e-3, bottom_ = kTop;
  Svg svg_{kWidth};
  std::map<std::string, size_t> colours_;
  std::vector<std::string> names_;
};

}  // namespace

std::string picture_of(const std::vector<json> &events) {
  size_t left_out = events.size() - std::min(events.size(), kMostRows);
  std::vector<Row> rows;
  for (size_t i = left_out; i < events.size(); i++) rows.push_back(row_of(events[i]));
  std::string title = "dumps and restores, from their beginning, with their steps";
  if (left_out > 0) title += fmt::format("; {} older ones are left out", left_out);
  return Picture(rows).draw(title);
}

}  // namespace ckpt::tools
