// SPDX-License-Identifier: Apache-2.0
#include "tools/svg.h"

#include <fmt/format.h>

namespace ckpt::tools {

std::string xml_escaped(std::string_view text) {
  std::string out;
  for (char c : text) {
    if (c == '<')
      out += "&lt;";
    else if (c == '>')
      out += "&gt;";
    else if (c == '&')
      out += "&amp;";
    else if (static_cast<unsigned char>(c) < 32)
      out += '?';
    else
      out += c;
  }
  return out;
}

void Svg::text(double x, double y, std::string_view words, const char *anchor, const char *fill) {
  body_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\" fill=\"{}\">{}</text>\n",
                       x, y, anchor, fill, xml_escaped(words));
}

void Svg::rect(double x, double y, double width, double height, const char *fill,
               std::string_view title) {
  body_ +=
      fmt::format("<rect x=\"{:.2f}\" y=\"{:.2f}\" width=\"{:.2f}\" height=\"{:.2f}\" fill=\"{}\"",
                  x, y, width, height, fill);
  body_ += title.empty() ? "/>\n"
                         : fmt::format(
                               " stroke=\"white\" stroke-width=\"0.3\"><title>{}</title>"
                               "</rect>\n",
                               xml_escaped(title));
}

void Svg::line(double x1, double y1, double x2, double y2, const char *stroke) {
  body_ +=
      fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n",
                  x1, y1, x2, y2, stroke);
}

void Svg::polyline(const std::vector<std::pair<double, double>> &points, const char *stroke) {
  std::string path;
  for (auto [x, y] : points) path += fmt::format("{:.1f},{:.1f} ", x, y);
  body_ += fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n",
                       path, stroke);
}

std::string Svg::picture(double height) const {
  return fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {} {}\" font-family=\"sans-serif\" "
      "font-size=\"12\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n{}</svg>\n",
      width_, height, body_);
}

}  // namespace ckpt::tools
