// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <map>
#include <numeric>
#include <set>

#include "tools/sim/report.h"
#include "tools/svg.h"

namespace ckpt::tools {

using namespace schedule;

namespace {

constexpr double kLeft = 70, kTop = 40, kBottom = 40;

// Gives each piece the lowest nodes that are free, which a real scheduler might choose otherwise.
class Rows {
 public:
  explicit Rows(unsigned nodes) {
    for (unsigned i = 0; i < nodes; i++) free_.insert(i);
  }
  std::vector<unsigned> take(const Piece &p, unsigned n) {
    while (!busy_.empty() && busy_.begin()->first <= p.begin) {
      free_.insert(busy_.begin()->second.begin(), busy_.begin()->second.end());
      busy_.erase(busy_.begin());
    }
    std::vector<unsigned> taken;
    for (unsigned i = 0; i < n && !free_.empty(); i++) {
      taken.push_back(*free_.begin());
      free_.erase(free_.begin());
    }
    busy_.emplace(p.end, taken);
    return taken;
  }

 private:
  std::set<unsigned> free_;
  std::multimap<Ticks, std::vector<unsigned>> busy_;
};

}  // namespace

std::string gantt_svg(const Workload &w, const std::vector<ResourceClass> &classes,
                      const Outcome &o, const std::string &title) {
  std::vector<RanPiece> pieces = o.pieces;
  std::sort(pieces.begin(), pieces.end(),
            [](const RanPiece &a, const RanPiece &b) { return a.piece.begin < b.piece.begin; });
  Ticks end = 1;
  for (const RanPiece &r : pieces) end = std::max(end, r.piece.end);
  unsigned nodes = 0;
  for (const ResourceClass &c : classes) nodes += c.nodes;
  const double row = std::max(0.5, std::min(12.0, 600.0 / nodes)), gap = 20;
  const double scale = (svg::kWidth - kLeft - 20) / static_cast<double>(end);
  std::string body = svg::text(kLeft, 20, title);
  double top = kTop;
  for (ClassIndex c = 0; c < classes.size(); c++) {
    body += svg::text(kLeft - 8, top + row * classes[c].nodes / 2, classes[c].name, "end");
    body += fmt::format(
        "<rect x=\"{}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" fill=\"#eee\"/>\n", kLeft,
        top, static_cast<double>(end) * scale, row * classes[c].nodes);
    Rows rows(classes[c].nodes);
    for (const RanPiece &r : pieces) {
      if (r.piece.on != c) continue;
      std::vector<unsigned> taken = rows.take(r.piece, w.jobs[r.job].nodes);
      // One rectangle for each run of neighbouring rows.
      for (size_t i = 0; i < taken.size();) {
        size_t next = i + 1;
        while (next < taken.size() && taken[next] == taken[next - 1] + 1) next++;
        body += fmt::format(
            "<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\" "
            "stroke=\"white\" stroke-width=\"0.3\"><title>job {}</title></rect>\n",
            kLeft + static_cast<double>(r.piece.begin) * scale, top + row * taken[i],
            static_cast<double>(r.piece.end - r.piece.begin) * scale,
            row * static_cast<double>(next - i), svg::kColours[1 + r.job % 6], r.job);
        i = next;
      }
    }
    top += row * classes[c].nodes + gap;
  }
  body += svg::text(kLeft, top + 5, "0");
  body += svg::text(svg::kWidth - 20, top + 5, fmt::format("{:.0f} s", seconds_of(end)), "end");
  return svg::document(top + kBottom, body);
}

std::string sweep_svg(const std::vector<Run> &runs) {
  constexpr double kHeight = 420;
  std::map<PolicyName, std::vector<const Run *>> lines;
  double least = 1e9, most = 0, top = 1.2;
  for (const Run &r : runs) {
    if (r.to_mct <= 0) continue;
    lines[r.policy].push_back(&r);
    least = std::min(least, r.load);
    most = std::max(most, r.load);
    top = std::max(top, r.to_mct * 1.05);
  }
  double span = std::max(most - least, 1e-9);
  auto x = [&](double load) { return kLeft + (load - least) / span * (svg::kWidth - kLeft - 120); };
  auto y = [&](double ratio) {
    return kHeight - kBottom - ratio / top * (kHeight - kTop - kBottom);
  };
  std::string body = svg::text(kLeft, 20, "mean turnaround, relative to MCT, over the load");
  const double step = top > 3 ? 1 : 0.2;
  for (int line = 0; line * step <= top; ++line) {
    const double ratio = line * step;
    body += fmt::format("<line x1=\"{}\" y1=\"{:.1f}\" x2=\"{}\" y2=\"{:.1f}\" stroke=\"#ddd\"/>\n",
                        kLeft, y(ratio), svg::kWidth - 120, y(ratio));
    body += svg::text(kLeft - 8, y(ratio) + 4, fmt::format("{:.1f}", ratio), "end");
  }
  size_t colour = 0;
  for (const auto &[policy, points] : lines) {
    std::string path;
    for (const Run *r : points) {
      path += fmt::format("{:.1f},{:.1f} ", x(r->load), y(r->to_mct));
      if (policy == lines.begin()->first)
        body +=
            svg::text(x(r->load), kHeight - kBottom + 16, fmt::format("{:g}", r->load), "middle");
    }
    const char *c = svg::kColours[colour++ % std::size(svg::kColours)];
    body += fmt::format(
        "<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", path, c);
    body +=
        fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" fill=\"{}\">{}</text>\n", svg::kWidth - 112,
                    kTop + 18.0 * static_cast<double>(colour), c, name_of(policy));
  }
  return svg::document(kHeight, body);
}

}  // namespace ckpt::tools
