// SPDX-License-Identifier: Apache-2.0
#include "tools/migrate/move_picture.h"

#include <algorithm>

#include "common/base/json_fields.h"
#include "common/base/units.h"
#include "tools/svg.h"

namespace ckpt::tools {
namespace {

using nlohmann::json;

constexpr double kWidth = 960, kLeft = 110, kRight = 20;
constexpr double kSentTop = 60, kSentHeight = 180;  // a bar for each round
constexpr double kRunTop = 270, kStopTop = 350, kRow = 26;
constexpr double kHeight = 430;
constexpr double kLabelWidth = 160;  // of a round
constexpr const char *kRuns = kColours[3], *kStands = kColours[5];

// In the order in which they follow.
struct Step {
  const char *name, *text, *colour;
};
constexpr Step kSteps[] = {{"dump", "last image", kColours[5]},
                           {"send", "sent", kColours[2]},
                           {"load", "loaded there", kColours[4]},
                           {"end", "ended here", kColours[0]},
                           {"start", "devices there", kColours[6]}};

class Picture {
 public:
  explicit Picture(const MoveReport &r)
      : r_(r), scale_((kWidth - kLeft - kRight) / std::max(r.seconds, 1e-3)) {}

  std::string draw() {
    svg_.text(kLeft, 20,
              fmt::format("{} moves to {}: {} in {} rounds, stopped for {:.2f} s", r_.program,
                          r_.host, human_bytes(r_.sent_bytes), r_.rounds.size(), r_.downtime));
    rounds();
    runs();
    stop();
    return svg_.picture(kHeight);
  }

 private:
  double x(double seconds) const { return kLeft + seconds * scale_; }

  void rounds() {
    u64 most = 1;
    for (const json &round : r_.rounds) most = std::max(most, sent(round));
    svg_.text(kLeft - 8, kSentTop + 12, human_bytes(most), "end");
    svg_.text(kLeft - 8, kSentTop + kSentHeight, "sent: 0", "end");
    double free = kLeft;  // of labels, from here on
    for (const json &round : r_.rounds) {
      double height = kSentHeight * static_cast<double>(sent(round)) / static_cast<double>(most);
      double begin = x(json_value(round, "begin_seconds", 0.0));
      double width = std::max(1.0, json_value(round, "seconds", 0.0) * scale_ - 1);
      const char *colour = json_value(round, "stopped", false) ? kStands : kColours[2];
      std::string label = label_of(round);
      svg_.rect(begin, kSentTop + kSentHeight - height, width, height, colour, label);
      if (begin < free) continue;
      bool fits = begin + kLabelWidth < kWidth;
      svg_.text(fits ? begin : begin + width, kSentTop + kSentHeight - height - 4, label,
                fits ? "start" : "end");
      free = begin + kLabelWidth;
    }
  }

  static u64 sent(const json &round) { return json_value(round, "sent_bytes", u64{0}); }

  static std::string label_of(const json &round) {
    double seconds = std::max(json_value(round, "send_seconds", 0.0), 1e-3);
    return fmt::format("{}: {}, {}/s", json_value(round, "round", 0), human_bytes(sent(round)),
                       human_bytes(static_cast<u64>(static_cast<double>(sent(round)) / seconds)));
  }

  // Pauses of rounds are drawn at their beginnings, and at least one unit wide.
  void runs() {
    svg_.text(kLeft - 8, kRunTop + kRow * 0.7, "runs", "end");
    double end = r_.stopped_at + r_.downtime;
    svg_.rect(x(0), kRunTop, r_.stopped_at * scale_, kRow, kRuns, "here");
    svg_.rect(x(end), kRunTop, (r_.seconds - end) * scale_, kRow, kRuns, "there");
    svg_.rect(x(r_.stopped_at), kRunTop, r_.downtime * scale_, kRow, kStands, "nowhere");
    for (const json &round : r_.rounds) {
      double pause = json_value(round, "pause_seconds", 0.0);
      if (json_value(round, "stopped", false)) continue;
      svg_.rect(x(json_value(round, "begin_seconds", 0.0)), kRunTop, std::max(1.0, pause * scale_),
                kRow, kStands, fmt::format("pause: {:.3f} s", pause));
    }
    svg_.text(x(0), kRunTop + kRow + 14, "0: here, with pauses; then there");
    svg_.text(x(r_.seconds), kRunTop + kRow + 14, fmt::format("{:.1f} s", r_.seconds), "end");
  }

  // The downtime alone, over the whole width.
  void stop() {
    svg_.text(kLeft - 8, kStopTop + kRow * 0.7, "the stop", "end");
    double at = kLeft, scale = (kWidth - kLeft - kRight) / std::max(r_.downtime, 1e-3);
    double label = kLeft;
    for (const Step &s : kSteps) {
      double seconds = json_value(r_.stop, s.name, 0.0);
      std::string text = fmt::format("{} {:.3f} s", s.text, seconds);
      svg_.rect(at, kStopTop, seconds * scale, kRow, s.colour, text);
      svg_.rect(label, kStopTop + kRow + 12, 10, 10, s.colour);
      svg_.text(label + 14, kStopTop + kRow + 21, text);
      at += seconds * scale;
      label += (kWidth - kLeft - kRight) / std::size(kSteps);
    }
  }

  const MoveReport &r_;
  const double scale_;
  Svg svg_{kWidth};
};

}  // namespace

std::string move_svg(const MoveReport &r) { return Picture(r).draw(); }

}  // namespace ckpt::tools
