// SPDX-License-Identifier: Apache-2.0
//
// A picture in SVG (https://www.w3.org/TR/SVG11/): all tools that draw use it. Lengths are pixels,
// y grows downwards.
#pragma once

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace ckpt::tools {

// Distinguishable also without colour vision (Okabe and Ito, 2008); the first is for text and axes.
inline constexpr std::array<const char *, 7> kColours = {"#000000", "#e69f00", "#56b4e9", "#009e73",
                                                         "#0072b2", "#d55e00", "#cc79a7"};

class Svg {
 public:
  explicit Svg(double width) : width_(width) {}
  double width() const { return width_; }

  // `anchor`: which end of the words is at x: "start", "middle" or "end".
  void text(double x, double y, std::string_view words, const char *anchor = "start",
            const char *fill = kColours[0]);
  // `title` is shown below the pointer.
  void rect(double x, double y, double width, double height, const char *fill,
            std::string_view title = {});
  void line(double x1, double y1, double x2, double y2, const char *stroke = "#ddd");
  void polyline(const std::vector<std::pair<double, double>> &points, const char *stroke);

  // The whole picture, on white.
  std::string picture(double height) const;

 private:
  double width_;
  std::string body_;
};

// Words for XML: any bytes in, markup and control characters replaced.
std::string xml_escaped(std::string_view text);

}  // namespace ckpt::tools
